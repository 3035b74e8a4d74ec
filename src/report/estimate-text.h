/* Estimates, and how they have held, for a person. */
#pragma once

#include "model/calibration.h"
#include "model/estimate.h"
#include "report/style.h"

/* Errors are the buffer's; 0 or -ENOMEM, both. */
int estimate_format(const char *job_type, const struct resource_estimate *estimate,
                    const struct report_style *style, struct text *out);
int calibration_format(const struct calibration_list *calibrations,
                       const struct report_style *style, struct text *out);
