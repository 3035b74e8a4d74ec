#include <errno.h>
#include <stdlib.h>

#include "base/macros.h"
#include "learn/estimate.h"
#include "learn/learn-constants.h"
#include "query/query.h"

/* Reads up to the total limit of runs for each outcome, so that running and lost runs do not
 * displace runs with figures. */
static int read_finished(struct store_reader *reader, const char *job_type, int64_t uid,
                         struct arena *arena, struct job_list lists[static 3])
{
    static const int outcomes[] = {OUTCOME_SUCCESS, OUTCOME_FAILURE, OUTCOME_UNKNOWN};
    struct job_filter filter = JOB_FILTER_ALL;
    int r = 0;

    filter.job_type = job_type;
    filter.uid = uid;
    for (size_t i = 0; i < ARRAY_SIZE(outcomes) && r == 0; i++) {
        filter.outcome = outcomes[i];
        /* No limit: lost runs are removed only after reading. */
        filter.limit =
            outcomes[i] == OUTCOME_UNKNOWN ? 0 : learn_constants_default.estimate_runs_max;
        r = store_read_jobs(reader, &filter, arena, &lists[i]);
    }
    return r;
}

static int compare_latest_first(const void *a, const void *b)
{
    const struct job *left = a, *right = b;
    return (left->started_at < right->started_at) - (left->started_at > right->started_at);
}

int query_estimate(struct store_reader *reader, const char *job_type, int64_t uid,
                   struct arena *arena, struct resource_estimate *ret)
{
    struct job_list lists[3] = {0}, runs = {0};

    int r = read_finished(reader, job_type, uid, arena, lists);
    if (r < 0)
        return r;
    size_t count = lists[0].count + lists[1].count + lists[2].count;
    runs.items = arena_alloc(arena, (count + 1) * sizeof(*runs.items));
    if (!runs.items)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (size_t k = 0; k < lists[i].count; k++)
            if (!job_is_lost(&lists[i].items[k]))
                runs.items[runs.count++] = lists[i].items[k];
    qsort(runs.items, runs.count, sizeof(*runs.items), compare_latest_first);
    runs.count = MIN(runs.count, learn_constants_default.estimate_runs_max);
    return estimate_make(&runs, ret);
}
