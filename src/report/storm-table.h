/* What was folded of storms, as a table: one row a program, with all that happened to its
 * processes. */
#pragma once

#include "report/event-table.h"

/* `folded` are events with a count; others are passed over. Those of one job and program become one
 * row, the busiest first. */
void storm_table_format(const struct process_event_list *folded,
                        const struct event_table_options *options, const struct report_style *style,
                        struct text *out);
