#include "learn/calibration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "stats/wilson.h"

void calibrator_init(struct calibrator *calibrator, const struct learn_constants *constants,
                     bool (*is_sure)(const struct resource_estimate *estimate))
{
    *calibrator = (struct calibrator){.constants = constants, .is_sure = is_sure};
}

void calibrator_done(struct calibrator *calibrator)
{
    VEC_DONE(&calibrator->runs);
    arena_done(&calibrator->arena);
}

static const char *copy_type(struct calibrator *calibrator, const char *type)
{
    if (!calibrator->last_type || strcmp(calibrator->last_type, type) != 0)
        calibrator->last_type = arena_strdup(&calibrator->arena, type);
    return calibrator->last_type;
}

int calibrator_add(struct calibrator *calibrator, const struct run_digest *run)
{
    struct typed_need typed;

    if (!run->job.job_type || !run_need_of(&run->job, &typed.need) ||
        !real_is_known(typed.need.started_at) || !real_is_known(typed.need.ended_at))
        return 0;
    typed.job_type = copy_type(calibrator, run->job.job_type);
    return typed.job_type ? VEC_PUSH(&calibrator->runs, typed) : -ENOMEM;
}

/* ---- one type ---- */

static int compare_ends(const void *a, const void *b)
{
    const struct run_need *left = a, *right = b;
    return (left->ended_at > right->ended_at) - (left->ended_at < right->ended_at);
}

/* Returns how many of the needs, which are sorted by end, had ended by a time. */
static size_t count_ended(const struct run_need *needs, size_t count, double by)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (needs[middle].ended_at <= by)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Counts one figure of a run. A run that was killed because memory ran out would have needed more
 * than `value`: if the value is below the estimate, the run proves nothing and does not count. */
static void check_figure(struct held_rate *rate, const struct run_need *need, double value,
                         double most)
{
    if (!real_is_known(value) || !real_is_known(most) ||
        (need->was_killed_for_memory && value <= most))
        return;
    rate->checked++;
    rate->held += value <= most;
}

static void check_run(const struct calibrator *calibrator, const struct run_need *need,
                      const struct resource_estimate *estimate, struct calibration *calibration)
{
    calibration->runs++;
    check_figure(&calibration->memory, need, need->memory_mb, estimate->peak_memory_mb_p95);
    check_figure(&calibration->cpu, need, need->cpu_seconds, estimate->cpu_seconds_p95);
    check_figure(&calibration->duration, need, need->duration_seconds,
                 estimate->duration_seconds_p95);
    if (calibrator->is_sure(estimate))
        check_figure(&calibration->memory_when_sure, need, need->memory_mb,
                     estimate->peak_memory_mb_p95);
}

static void compute_rate(struct held_rate *rate)
{
    struct interval interval = {REAL_UNKNOWN, REAL_UNKNOWN};

    if (rate->checked)
        interval = wilson_interval(rate->held, rate->checked);
    rate->rate = rate->checked ? (double)rate->held / (double)rate->checked : REAL_UNKNOWN;
    rate->rate_low = interval.low;
    rate->rate_high = interval.high;
}

/* Sorts the needs. */
static void calibrate_type(const struct calibrator *calibrator, struct run_need *needs,
                           size_t count, double *scratch, struct calibration *calibration)
{
    struct resource_estimate estimate;

    qsort(needs, count, sizeof(*needs), compare_ends);
    for (size_t i = 0; i < count; i++) {
        if (needs[i].ended_at <= needs[i].started_at)
            continue; /* the clock was set: it would count among the runs before it */
        size_t before = count_ended(needs, count, needs[i].started_at);
        size_t used = MIN(before, calibrator->constants->estimate_runs_max);
        if (estimate_of_needs(needs + before - used, used, scratch, &estimate) == 0)
            check_run(calibrator, &needs[i], &estimate, calibration);
    }
    compute_rate(&calibration->memory);
    compute_rate(&calibration->cpu);
    compute_rate(&calibration->duration);
    compute_rate(&calibration->memory_when_sure);
}

/* ---- all types ---- */

static int compare_types(const void *a, const void *b)
{
    const struct typed_need *left = a, *right = b;
    return strcmp(left->job_type, right->job_type);
}

static int compare_calibrations(const void *a, const void *b)
{
    const struct calibration *left = a, *right = b;

    if (left->runs != right->runs)
        return left->runs > right->runs ? -1 : 1;
    return strcmp(left->job_type, right->job_type);
}

/* Copies the needs of the type at `from`; returns the start of the next type. */
static size_t copy_needs(const struct calibrator *calibrator, size_t from, struct run_need *needs)
{
    const char *type = calibrator->runs.items[from].job_type;
    size_t at = from;

    for (; at < calibrator->runs.count && strcmp(calibrator->runs.items[at].job_type, type) == 0;
         at++)
        needs[at - from] = calibrator->runs.items[at].need;
    return at;
}

static int calibrate_types(struct calibrator *calibrator, struct run_need *needs, double *scratch,
                           struct arena *arena, struct calibration_list *list)
{
    for (size_t from = 0, to; from < calibrator->runs.count; from = to) {
        struct calibration found = {.runs = 0};
        const char *type = calibrator->runs.items[from].job_type;
        to = copy_needs(calibrator, from, needs);
        calibrate_type(calibrator, needs, to - from, scratch, &found);
        if (!found.runs)
            continue;
        found.job_type = arena_strdup(arena, type);
        if (!found.job_type)
            return -ENOMEM;
        list->items[list->count++] = found;
    }
    return 0;
}

static size_t count_types(const struct calibrator *calibrator)
{
    size_t types = 0;

    for (size_t i = 0; i < calibrator->runs.count; i++)
        types += !i || compare_types(&calibrator->runs.items[i - 1], &calibrator->runs.items[i]);
    return types;
}

int calibrator_make(struct calibrator *calibrator, struct arena *arena,
                    struct calibration_list *ret)
{
    size_t count = calibrator->runs.count, room = MAX(count, (size_t)1);
    _cleanup_free_ struct run_need *needs = malloc(room * sizeof(*needs));
    _cleanup_free_ double *scratch = malloc(room * sizeof(*scratch));

    if (!needs || !scratch)
        return -ENOMEM;
    if (count)
        qsort(calibrator->runs.items, count, sizeof(*calibrator->runs.items), compare_types);
    struct calibration_list list = {
        .items = arena_alloc(arena, (count_types(calibrator) + 1) * sizeof(*list.items))};
    int r = list.items ? calibrate_types(calibrator, needs, scratch, arena, &list) : -ENOMEM;
    if (r < 0)
        return r;
    qsort(list.items, list.count, sizeof(*list.items), compare_calibrations);
    *ret = list;
    return 0;
}
