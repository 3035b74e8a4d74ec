/* Calibration: how often the estimates of a job type were right for its finished runs. */
#pragma once

#include "model/field.h"

/* How many of the checked runs stayed within the p95. */
struct held_rate {
    int64_t checked;
    int64_t held;
    double rate;
    double rate_low; /* 95 % interval */
    double rate_high;
};

struct calibration {
    const char *job_type;
    int64_t runs; /* finished runs except the first, for which no estimate existed */
    struct held_rate memory;
    struct held_rate cpu;
    struct held_rate duration;
    struct held_rate memory_when_sure; /* only estimates that admission uses */
};

struct calibration_list LIST(struct calibration);

extern const struct record calibration_record;
