/* The figures of a GPU at one instant: finite and not negative, or REAL_UNKNOWN. */
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
