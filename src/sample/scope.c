#include "sample/scope.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "stats/order.h"

typedef double (*measure_fn)(const struct process_metric *process);

static double measure_cpu(const struct process_metric *process)
{
    return process->cpu_percent;
}

static double measure_rss(const struct process_metric *process)
{
    return process->rss_mb;
}

/* The SCOPE_LARGEST largest processes: those with more than `least`, and the first `ties` of those
 * with exactly `least`. The limit on ties keeps a thousand equal workers out. */
struct largest {
    double least;
    size_t ties;
};

/* Ignores processes with 0 or less. `scratch` has room for all values. */
static struct largest find_largest(const struct process_list *processes, measure_fn measure,
                                   double *scratch)
{
    size_t count = 0;

    for (size_t i = 0; i < processes->count; i++) {
        double value = measure(&processes->items[i]);
        if (value > 0)
            scratch[count++] = value;
    }
    if (!count)
        return (struct largest){.least = INFINITY};

    size_t wanted = MIN(count, (size_t)SCOPE_LARGEST);
    struct largest largest = {.least = order_kth_largest(scratch, count, wanted), .ties = wanted};
    for (size_t i = 0; i < wanted; i++)
        largest.ties -= scratch[i] > largest.least;
    return largest;
}

/* Returns whether a value is among the largest. A value of `least` uses up one of the ties, so call
 * this once per process. */
static bool is_among_largest(struct largest *largest, double value)
{
    if (value == largest->least && largest->ties) {
        largest->ties--;
        return true;
    }
    return value > largest->least;
}

int scope_apply(enum scope scope, struct process_list *processes, scope_fn is_wanted, void *context)
{
    if (scope == SCOPE_ALL || processes->count == 0)
        return 0;

    _cleanup_free_ double *scratch = calloc(processes->count, sizeof(*scratch));
    if (!scratch)
        return -ENOMEM;
    struct largest by_cpu = find_largest(processes, measure_cpu, scratch);
    struct largest by_rss = find_largest(processes, measure_rss, scratch);

    size_t kept = 0;
    for (size_t i = 0; i < processes->count; i++) {
        const struct process_metric *process = &processes->items[i];
        bool is_large = is_among_largest(&by_cpu, process->cpu_percent);
        is_large |= is_among_largest(&by_rss, process->rss_mb);
        if (is_large || process->job_id || process->state == 'Z' ||
            (is_wanted && is_wanted(context, process)))
            processes->items[kept++] = *process;
    }
    processes->count = kept;
    return 0;
}

void scope_keep_job(const char *job, struct snapshot *snapshot)
{
    SCOPE_KEEP_JOB(&snapshot->processes, job);
    SCOPE_KEEP_JOB(&snapshot->jobs, job);
    SCOPE_KEEP_JOB(&snapshot->job_progress, job);
}
