/* How a run differs from earlier successful runs of its type. Pure functions. */
#pragma once

#include "model/job.h"
#include "report/style.h"

/* One figure of the run, compared with the same figure of the earlier runs. */
struct run_difference {
    const char *figure; /* the field's name */
    double value;
    double median;
    double robust_z;     /* unknown: the figures of all earlier runs are equal */
    int64_t sample_size; /* number of earlier runs that have the figure */
    int unusual;         /* enum truth */
};

struct run_difference_list LIST(struct run_difference);

struct earlier_runs {
    int64_t runs; /* ended with a known outcome */
    int64_t failures;
    /* Compared with successful runs; empty if there are fewer than EARLIER_RUNS_MIN. */
    struct run_difference_list figures;
};

/* Fewer runs do not show which values are usual. */
#define EARLIER_RUNS_MIN 5

extern const struct record run_difference_record;
extern const struct record earlier_runs_record;

/* Compares `run` with `jobs`; ignores the run itself and runs that have not ended. The list is
 * placed in `arena`. Returns 0 or -ENOMEM. */
int earlier_runs_make(const struct job_list *jobs, const struct job *run, struct arena *arena,
                      struct earlier_runs *ret);

/* Writes a table with its heading; nothing if there is no comparison. */
void earlier_runs_format(const struct earlier_runs *earlier, const struct job *run,
                         const struct report_style *style, struct text *out);
