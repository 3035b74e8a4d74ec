/* Retention: deletes and downsamples old data in short transactions, so that another writer waits
 * for one of them at most.
 *
 * One-minute roll-ups replace old samples: first the session's full_from is raised (the views show
 * minutes before it), then the samples are deleted. Every step can be repeated, so that a crash
 * between two transactions only leaves the rest of the work undone. */
#pragma once

#include "store/schema.h"

/* Returns 0, 1 if database->should_stop() cancelled it, or a negative errno. */
int retention_run(struct database *database, const struct schema *schema,
                  const struct retention_config *config, double now);

/* Returns the time when retention was last completed; REAL_UNKNOWN: never, or the time cannot be
 * read. */
double retention_last(struct database *database);
