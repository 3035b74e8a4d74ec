#include "report/earlier-runs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "stats/order.h"

static const struct field fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct earlier_runs, member, type, __VA_ARGS__)
    FIELD(runs, FIELD_INT, .unit = UNIT_COUNT, .meaning = "how many are compared with"),
    FIELD(failures, FIELD_INT, .unit = UNIT_COUNT, .meaning = "how many of them failed"),
    FIELD(median_wall_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .resolution = 0.000001,
          .meaning = "from start to end"),
    FIELD(median_cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .resolution = 0.000001,
          .meaning = "CPU time of all their processes"),
    FIELD(median_peak_rss_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "RSS of their largest process"),
#undef FIELD
};
const struct record earlier_runs_record = RECORD_OF(struct earlier_runs, "EarlierRuns", fields);

static bool is_comparable(const struct job *job, const char *run_id)
{
    return (job->outcome == OUTCOME_SUCCESS || job->outcome == OUTCOME_FAILURE) &&
           strcmp(job->run_id, run_id) != 0;
}

/* Of a figure of the profile, over the runs where it is known. `values` has room for all. */
static double median_of(const struct job_list *jobs, const char *run_id, size_t offset,
                        double *values)
{
    size_t count = 0;

    for (size_t i = 0; i < jobs->count; i++) {
        const struct job *job = &jobs->items[i];
        double value = *(const double *)((const char *)&job->profile + offset);
        if (is_comparable(job, run_id) && real_is_known(value))
            values[count++] = value;
    }
    if (!count)
        return REAL_UNKNOWN;
    double upper = order_kth_largest(values, count, (count + 1) / 2);
    return count % 2 ? upper : (upper + order_kth_largest(values, count, count / 2 + 1)) / 2;
}

int earlier_runs_make(const struct job_list *jobs, const char *run_id, struct earlier_runs *ret)
{
    _cleanup_free_ double *values = malloc(MAX(jobs->count, (size_t)1) * sizeof(*values));

    if (!values)
        return -ENOMEM;
    *ret = (struct earlier_runs){
        .median_wall_seconds =
            median_of(jobs, run_id, offsetof(struct job_profile, wall_seconds), values),
        .median_cpu_seconds =
            median_of(jobs, run_id, offsetof(struct job_profile, total_cpu_seconds), values),
        .median_peak_rss_mb =
            median_of(jobs, run_id, offsetof(struct job_profile, peak_rss_mb), values),
    };
    for (size_t i = 0; i < jobs->count; i++) {
        bool counts = is_comparable(&jobs->items[i], run_id);
        ret->runs += counts;
        ret->failures += counts && jobs->items[i].outcome == OUTCOME_FAILURE;
    }
    return 0;
}
