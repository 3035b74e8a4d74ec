/* Letting go of what is old, in short transactions: a writer beside it waits for one of them at
 * most.
 *
 * Samples give way to minutes: first the session says from which tick on samples count (full_from;
 * the views show minutes before it), then the samples are deleted. Each step can be done again, so
 * that a crash between any two transactions costs nothing but the rest of the work. */
#pragma once

#include "store/schema.h"

/* 0, 1 if database->should_stop() cut it short, or a negative errno. */
int retention_run(struct database *database, const struct schema *schema,
                  const struct retention_config *config, double now);

/* When it was last run to its end; REAL_UNKNOWN: never, or it cannot be told. */
double retention_last(struct database *database);
