/* An analysis as text: the runs that it used, correlations with failure, stored patterns. */
#pragma once

#include "model/analysis.h"
#include "report/style.h"

/* Writes the analysis. Times omit the date if it is that of `as_of`. Returns 0 or -ENOMEM, which is
 * also the buffer's error. */
int analysis_format(const struct analysis *analysis, const struct report_style *style,
                    struct text *out);
