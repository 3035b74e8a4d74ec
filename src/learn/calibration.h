/* How often estimates have held: for each finished run, the estimate that there was when it began
 * is made again, out of the runs of its type that had ended by then, and held against what it came
 * to need. Pure. */
#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "learn/estimate.h"
#include "learn/numbers.h"
#include "model/calibration.h"
#include "model/run-digest.h"

struct typed_need {
    const char *job_type; /* in the arena */
    struct run_need need;
};

struct calibrator {
    const struct learn_numbers *numbers;
    struct VEC(struct typed_need) runs;
    const char *last_type; /* runs of one type come in a row more often than not */
    struct arena arena;
};

void calibrator_init(struct calibrator *calibrator, const struct learn_numbers *numbers);
void calibrator_done(struct calibrator *calibrator);

/* Runs without a type, that go on, or that were lost, are passed over. 0 or -ENOMEM. */
int calibrator_add(struct calibrator *calibrator, const struct run_digest *run);

/* Of each type with more than one run, the most runs first. The list and the names are placed in
 * `arena`. 0 or -ENOMEM. */
int calibrator_judge(struct calibrator *calibrator, struct arena *arena,
                     struct calibration_list *ret);

#define _cleanup_calibrator_ __attribute__((cleanup(calibrator_done)))
