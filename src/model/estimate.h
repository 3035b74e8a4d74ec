/* ResourceEstimate: what the next run of a job type will need. */
#pragma once

#include "model/field.h"

struct resource_estimate {
    double estimated_peak_memory_mb;   /* p95 */
    double estimated_cpu_seconds;      /* p50 */
    double confidence;                 /* 0 to 1 */
    double estimated_duration_seconds; /* p50 */
    int64_t sample_size;               /* without runs that were killed because memory ran out */
    double peak_memory_mb_p50;
    double peak_memory_mb_p95;
    double cpu_seconds_p50;
    double cpu_seconds_p95;
    double duration_seconds_p50;
    double duration_seconds_p95;
    double failure_rate;
};

extern const struct record resource_estimate_record;
