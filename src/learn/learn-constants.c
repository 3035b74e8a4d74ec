#include "learn/learn-constants.h"

#include <math.h>

#define DAY_SECONDS 86400.0
#define GB_MB       1024.0

const struct learn_constants learn_constants_default = {
    .lookback_seconds = 7 * DAY_SECONDS,
    .runs_max = 500000,
    .types_max = 200,

    .memory_bins = {{"<256MB", 256},
                    {"256-512MB", 512},
                    {"512MB-1GB", GB_MB},
                    {"1-2GB", 2 * GB_MB},
                    {">2GB", INFINITY}},
    .duration_bins =
        {{"<10s", 10}, {"10-60s", 60}, {"1-10min", 600}, {"10-60min", 3600}, {">1h", INFINITY}},
    .cpu_quantiles = {0.25, 0.50, 0.75},
    .syscall_share_pct = 35,
    .group_runs_min = 3,

    .deviation_min = 0.10,
    .confidence_base = 0.5,
    .confidence_share_weight = 0.2,
    .figures = {[FIGURE_MEMORY] = {"memory", "memory_bin", 0.95, 0.5},
                [FIGURE_CPU] = {"cpu", "cpu_quartile", 0.95, 0.5},
                [FIGURE_SYSCALL] = {"syscall", "syscall", 0.90, 0.4},
                [FIGURE_ANOMALY] = {"anomaly", "anomaly", 0.95, 0.5},
                [FIGURE_DURATION] = {"duration", "duration_bin", 0.85, 0.4}},
    .kept_confidence_min = 0.6,
    .significant_q_max = 0.05,

    .estimate_runs_max = 200,
    .estimate_half_runs = 5,
    .percentile_usual = 0.50,
    .percentile_most = 0.95,
    .percentile_low = 0.25,
    .percentile_high = 0.75,
    .calibration_runs_max = 20000,
};
