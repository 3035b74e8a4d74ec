/* Calibration: how often estimates were high enough. For each finished run, makes the estimate
 * again from the runs of its type that had ended when it began, and compares it with what the run
 * used. Pure: no I/O, no clock. */
#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "learn/estimate.h"
#include "learn/learn-constants.h"
#include "model/calibration.h"
#include "model/run-digest.h"

struct typed_need {
    const char *job_type; /* in the arena */
    struct run_need need;
};

struct calibrator {
    const struct learn_constants *constants;
    bool (*is_sure)(const struct resource_estimate *estimate);
    struct VEC(struct typed_need) runs;
    const char *last_type; /* consecutive runs often have the same type */
    struct arena arena;
};

/* `is_sure` returns whether admission uses an estimate; those are also counted separately. */
void calibrator_init(struct calibrator *calibrator, const struct learn_constants *constants,
                     bool (*is_sure)(const struct resource_estimate *estimate));
void calibrator_done(struct calibrator *calibrator);

/* Adds a run. Ignores runs without a type, running runs and lost runs. Returns 0 or -ENOMEM. */
int calibrator_add(struct calibrator *calibrator, const struct run_digest *run);

/* Makes the calibration of each type of which a run could be checked, the type with the most runs
 * first. The list and the names are allocated in `arena`. Returns 0 or -ENOMEM. */
int calibrator_make(struct calibrator *calibrator, struct arena *arena,
                    struct calibration_list *ret);

#define _cleanup_calibrator_ __attribute__((cleanup(calibrator_done)))
