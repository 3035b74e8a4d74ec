/* Estimates what the next run of a job type will use, from its finished runs. Pure: no I/O, no
 * clock. */
#pragma once

#include <stdbool.h>

#include "model/estimate.h"
#include "model/job.h"

/* What one finished run used; each figure can be unknown. */
struct run_need {
    double started_at;
    double ended_at;
    double memory_mb;
    double cpu_seconds;
    double duration_seconds;
    int outcome;                /* enum outcome */
    bool was_killed_for_memory; /* it would have needed more */
};

/* Extracts what a run used. Returns false if the run is running or was lost: it cannot be used. */
bool run_need_of(const struct job *run, struct run_need *ret);

/* Makes an estimate from runs of one type; running and lost runs are left out. Returns 0, -ENODATA
 * (no run to use) or -ENOMEM.
 *
 * Percentiles are interpolated (stats/quantile.h). Memory is that of all processes together, as
 * admission counts it: the peak of the unique memory, and not less than the largest process.
 *
 * A run that was killed for memory is only a lower bound: it is left out of all percentiles, but if
 * it used more than the p95, its value becomes the p95. With only such runs, the p50 is unknown,
 * and sample_size and confidence are 0. */
int estimate_make(const struct job_list *runs, struct resource_estimate *ret);

/* The same from `count` needs; `scratch` has room for `count` numbers. Returns 0 or -ENODATA. */
int estimate_of_needs(const struct run_need *needs, size_t count, double *scratch,
                      struct resource_estimate *ret);
