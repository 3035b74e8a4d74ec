/* The short summary of a run, as `sonde run` prints it. */
#pragma once

#include "base/text.h"
#include "model/job.h"
#include "report/style.h"

/* Writes the summary. `events_error` is the negative errno with which the kernel refused to report
 * process events; 0 if it reports them. Errors are the buffer's. */
void short_summary_format(const struct run_summary *summary, int events_error,
                          const struct report_style *style, struct text *out);
