/* What earlier runs of the same type used, to hold a run against. Pure. */
#pragma once

#include "model/job.h"

struct earlier_runs {
    int64_t runs; /* those that have ended, with an outcome */
    int64_t failures;
    double median_wall_seconds;
    double median_cpu_seconds;
    double median_peak_rss_mb;
};

extern const struct record earlier_runs_record;

/* From `jobs`, less the run itself and those without an end. 0 or -ENOMEM. */
int earlier_runs_make(const struct job_list *jobs, const char *run_id, struct earlier_runs *ret);
