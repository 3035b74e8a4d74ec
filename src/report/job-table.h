/* Runs as a table. */
#pragma once

#include "model/job.h"
#include "report/style.h"

/* Times omit the date if it is that of `now`. */
void job_table_format(const struct job_list *jobs, double now, size_t indent,
                      const struct report_style *style, struct text *out);
