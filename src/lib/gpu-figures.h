/* What is known of a GPU at one instant: finite, and not negative; REAL_UNKNOWN what is not. */
#pragma once

#include "model/field.h"

struct gpu_figures {
    double util;
    double mem_mb;
    double clock_mhz;
    double power_w;
};

#define GPU_FIGURES_UNKNOWN                                                                        \
    ((struct gpu_figures){REAL_UNKNOWN, REAL_UNKNOWN, REAL_UNKNOWN, REAL_UNKNOWN})
