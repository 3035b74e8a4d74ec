/* What the next run of a job type will need, out of its finished runs. Pure. */
#pragma once

#include <stdbool.h>

#include "model/estimate.h"
#include "model/job.h"

/* What one finished run needed; unknown where it is not known. */
struct run_need {
    double started_at;
    double ended_at;
    double memory_mb;
    double cpu_seconds;
    double duration_seconds;
    int outcome;                /* enum outcome */
    bool was_killed_for_memory; /* it would have needed more */
};

/* false: nothing is to be learned of it, because it goes on, or was lost. */
bool run_need_of(const struct job *run, struct run_need *ret);

/* Of finished runs of one type; those that go on, and those that were lost, are left out. 0,
 * -ENODATA (no run to learn from) or -ENOMEM.
 *
 * Percentiles are interpolated (stats/quantile.h). Memory is that of all processes together, as
 * admission counts it: the largest unique sum, and no less than the largest process.
 *
 * A run that was killed for memory is a lower bound, not a data point: it is left out of all
 * percentiles, but where it is above a p95, it is that p95. If there are only such runs, p50 is
 * unknown, sample_size 0 and confidence 0. */
int estimate_make(const struct job_list *runs, struct resource_estimate *ret);

/* The same; `scratch` has room for as many numbers as there are needs. 0 or -ENODATA. */
int estimate_of_needs(const struct run_need *needs, size_t count, double *scratch,
                      struct resource_estimate *ret);
