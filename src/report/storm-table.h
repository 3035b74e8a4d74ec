/* Events that were counted instead of stored one by one (event storms), as a table: one row per
 * program. */
#pragma once

#include "report/event-table.h"

/* Writes the table. Events of one run and program become one row; the program with the most
 * processes comes first. Events without a count are ignored. Errors are the buffer's. */
void storm_table_format(const struct process_event_list *folded,
                        const struct event_table_options *options, const struct report_style *style,
                        struct text *out);
