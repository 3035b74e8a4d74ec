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

/* The value that the SCOPE_LARGEST largest reach; never 0 or less, because what uses nothing is not
 * among the largest. `scratch` has room for all. */
static double threshold(const struct process_list *processes, measure_fn measure, double *scratch)
{
    size_t count = 0;

    for (size_t i = 0; i < processes->count; i++) {
        double value = measure(&processes->items[i]);
        if (value > 0)
            scratch[count++] = value;
    }
    if (!count)
        return INFINITY;
    return order_kth_largest(scratch, count, MIN(count, (size_t)SCOPE_LARGEST));
}

int scope_apply(enum scope scope, struct process_list *processes, scope_fn is_wanted, void *context)
{
    if (scope == SCOPE_ALL || processes->count == 0)
        return 0;

    _cleanup_free_ double *scratch = calloc(processes->count, sizeof(*scratch));
    if (!scratch)
        return -ENOMEM;
    double least_cpu = threshold(processes, measure_cpu, scratch);
    double least_rss = threshold(processes, measure_rss, scratch);

    size_t kept = 0;
    for (size_t i = 0; i < processes->count; i++) {
        const struct process_metric *process = &processes->items[i];
        if (process->job_id || process->state == 'Z' || process->cpu_percent >= least_cpu ||
            process->rss_mb >= least_rss || (is_wanted && is_wanted(context, process)))
            processes->items[kept++] = *process;
    }
    processes->count = kept;
    return 0;
}
