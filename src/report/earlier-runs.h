/* How a run differs from the earlier runs of its type that went well. Pure. */
#pragma once

#include "model/job.h"
#include "report/style.h"

/* One figure of the run, among those of the others. */
struct run_difference {
    const char *figure; /* the field's name */
    double value;
    double median;
    double robust_z; /* unknown: all others are the same */
    int64_t sample_size;
    int unusual; /* enum truth */
};

struct run_difference_list LIST(struct run_difference);

struct earlier_runs {
    int64_t runs; /* those that have ended, with an outcome */
    int64_t failures;
    /* Against those that succeeded; empty with fewer than EARLIER_RUNS_MIN of them. */
    struct run_difference_list figures;
};

/* Of fewer runs, nothing is usual yet. */
#define EARLIER_RUNS_MIN 5

extern const struct record run_difference_record;
extern const struct record earlier_runs_record;

/* From `jobs`, less the run itself and those without an end; the list is placed in `arena`. 0 or
 * -ENOMEM. */
int earlier_runs_make(const struct job_list *jobs, const struct job *run, struct arena *arena,
                      struct earlier_runs *ret);

/* As a table, with its heading; nothing if there is nothing to say. */
void earlier_runs_format(const struct earlier_runs *earlier, const struct job *run,
                         const struct report_style *style, struct text *out);
