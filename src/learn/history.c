#include "learn/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "model/waiting-calls.h"

void history_init(struct history *history, const struct learn_constants *constants, bool by_type)
{
    *history = (struct history){.constants = constants, .by_type = by_type};
}

void history_done(struct history *history)
{
    VEC_DONE(&history->runs);
    VEC_DONE(&history->calls);
    VEC_DONE(&history->anomalies);
    map_done(&history->types);
    arena_done(&history->arena);
}

/* ---- names ---- */

/* Finds or adds a name. Its index, -E2BIG (too many names) or -ENOMEM. */
static int find_name(struct history *history, struct name_list *names, size_t max, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return (int)i;
    if (names->count == max)
        return -E2BIG;
    const char *kept = arena_strdup(&history->arena, name);
    if (!kept || VEC_PUSH(names, kept) < 0)
        return -ENOMEM;
    return (int)names->count - 1;
}

/* Finds or adds a job type. There may be as many types as runs. */
static int find_type(struct history *history, const char *name, const char **ret)
{
    uint64_t key = hash_text(name);
    char *type;

    while ((type = map_get(&history->types, key)) && strcmp(type, name) != 0)
        key++;
    if (!type) {
        type = arena_strdup(&history->arena, name);
        if (!type || map_put(&history->types, key, type) < 0)
            return -ENOMEM;
    }
    *ret = type;
    return 0;
}

/* ---- runs ---- */

/* Shares are of the time in all calls that do not wait. Otherwise a shell, or any program with
 * threads, would seem to do nothing but wait. */
static int add_calls(struct history *history, const struct job_profile *profile,
                     struct past_run *run)
{
    const struct tally_list *calls = &profile->syscall_hotspots;
    double all = 0;
    size_t count = 0;

    run->has_calls = calls->items;
    run->call_source = (uint8_t)profile->syscall_source;
    for (size_t i = 0; i < calls->count; i++)
        if (calls->items[i].value > 0 && !call_is_waiting(calls->items[i].name))
            all += calls->items[i].value;
    for (size_t i = 0; i < calls->count && count < RUN_CALLS_MAX; i++) {
        const struct tally *call = &calls->items[i];
        if (!(call->value * 100 > history->constants->syscall_share_pct * all) ||
            call_is_waiting(call->name))
            continue;
        int number = find_name(history, &history->calls, CALL_NAMES_MAX, call->name);
        if (number == -ENOMEM)
            return number;
        if (number >= 0)
            run->calls[count++] = (uint16_t)(number + 1);
    }
    return 0;
}

static int add_anomalies(struct history *history, const struct text_list *types,
                         struct past_run *run)
{
    for (size_t i = 0; i < types->count; i++) {
        int number = find_name(history, &history->anomalies, ANOMALY_NAMES_MAX, types->items[i]);
        if (number == -ENOMEM)
            return number;
        if (number >= 0)
            run->anomalies |= UINT32_C(1) << number;
    }
    return 0;
}

int history_add(struct history *history, const struct run_digest *digest)
{
    const struct job *job = &digest->job;
    bool has_failed = job->outcome == OUTCOME_FAILURE;

    if (!has_failed && job->outcome != OUTCOME_SUCCESS) {
        history->without_outcome += job->outcome == OUTCOME_UNKNOWN;
        return 0;
    }
    struct past_run run = {
        .memory_mb = job->profile.peak_rss_mb,
        .cpu_seconds = job->profile.cpu_seconds,
        .duration_seconds = job_duration_seconds(job),
        .has_failed = has_failed,
    };
    int r = add_calls(history, &job->profile, &run);
    if (r == 0 && history->by_type && job->job_type)
        r = find_type(history, job->job_type, &run.job_type);
    if (r == 0)
        r = add_anomalies(history, &digest->anomaly_types, &run);
    if (r == 0)
        r = VEC_PUSH(&history->runs, run);
    if (r == 0)
        history->failures += has_failed;
    return r;
}

static int compare_types(const void *a, const void *b)
{
    const struct past_run *left = a, *right = b;

    if (left->job_type == right->job_type)
        return 0;
    if (!left->job_type || !right->job_type)
        return left->job_type ? 1 : -1;
    return strcmp(left->job_type, right->job_type);
}

void history_sort(struct history *history)
{
    if (history->runs.count)
        qsort(history->runs.items, history->runs.count, sizeof(history->runs.items[0]),
              compare_types);
}
