/* An analysis for a person: what was looked at, what goes with failure, what is kept. */
#pragma once

#include "model/analysis.h"
#include "report/style.h"

/* Times of the day of `as_of` stand without a date. Errors are the buffer's; 0 or -ENOMEM. */
int analysis_format(const struct analysis *analysis, const struct report_style *style,
                    struct text *out);
