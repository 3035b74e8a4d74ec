/* Estimates, and how accurate earlier estimates were, as text. */
#pragma once

#include "model/calibration.h"
#include "model/estimate.h"
#include "report/style.h"

/* Both write text and return 0 or -ENOMEM, which is also the buffer's error. `is_sure`: admission
 * uses the estimate. */
int estimate_format(const char *job_type, const struct resource_estimate *estimate, bool is_sure,
                    const struct report_style *style, struct text *out);
int calibration_format(const struct calibration_list *calibrations,
                       const struct report_style *style, struct text *out);
