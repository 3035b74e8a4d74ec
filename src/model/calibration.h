/* Calibration: how often estimates of a job type have held, had they been asked for. */
#pragma once

#include "model/field.h"

/* Of runs that were held against a p95: how many kept below it. */
struct held_rate {
    int64_t checked;
    int64_t held;
    double rate;
    double rate_low; /* 95 % interval */
    double rate_high;
};

struct calibration {
    const char *job_type;
    int64_t runs; /* finished ones, less the first, before which there was nothing to go by */
    struct held_rate memory;
    struct held_rate cpu;
    struct held_rate duration;
    struct held_rate memory_when_sure; /* by estimates that admission goes by */
};

struct calibration_list LIST(struct calibration);

extern const struct record calibration_record;
