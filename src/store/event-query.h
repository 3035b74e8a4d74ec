/* Reads events: see store_read_events(). */
#pragma once

#include "store/schema.h"

/* Call it within a transaction. Returns 0 or a negative errno. */
int event_query(struct database *database, const struct schema *schema,
                const struct event_filter *filter, struct arena *arena,
                struct process_event_list *ret);
