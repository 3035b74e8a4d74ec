/* Runs as a table. */
#pragma once

#include "model/job.h"
#include "report/style.h"

/* Writes a row for each run. Times omit the date if it is that of `now`. Errors are the buffer's.
 */
void job_table_format(const struct job_list *jobs, double now, size_t indent,
                      const struct report_style *style, struct text *out);
