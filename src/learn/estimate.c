#include "learn/estimate.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "learn/learn-constants.h"
#include "model/cause.h"
#include "stats/quantile.h"

static bool has_finished(const struct job *run)
{
    if (run->outcome == OUTCOME_UNKNOWN)
        return !job_is_lost(run);
    return run->outcome == OUTCOME_SUCCESS || run->outcome == OUTCOME_FAILURE;
}

/* Whether a text contains a whole word, in any case: "OOM", not "room". */
static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = text; (at = strcasestr(at, word)); at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]))
            return true;
    return false;
}

static bool has_oom(const struct process_event_list *chain)
{
    for (size_t i = 0; i < chain->count; i++)
        if (chain->items[i].event_type == EVENT_OOM)
            return true;
    return false;
}

static bool was_killed_for_memory(const struct job *run)
{
    /* "OOM" is in every cause that sonde writes. The others are in causes that schedulers report;
     * the last two are how reports and anomalies of sonde 0.1.0 named an OOM kill. */
    static const char *const words[] = {"OOM", "out of memory", "killed for memory",
                                        "want of memory"};

    if (run->outcome == OUTCOME_SUCCESS)
        return false;
    if (run->outcome == OUTCOME_FAILURE && run->profile.oom_count > 0)
        return true;
    /* Its text may contain the names of programs, and one may be called "oom". */
    if (cause_is_of_chain(run->cause, &run->chain))
        return has_oom(&run->chain);
    for (size_t i = 0; i < ARRAY_SIZE(words) && run->cause; i++)
        if (has_word(run->cause, words[i]))
            return true;
    return false;
}

bool run_need_of(const struct job *run, struct run_need *ret)
{
    if (!has_finished(run))
        return false;
    *ret = (struct run_need){
        .started_at = run->started_at,
        .ended_at = run->ended_at,
        /* All processes together, as admission counts it. A short run may end before a sample sees
         * its peak; then the kernel's figure of its largest process is closer. */
        .memory_mb = fmax(run->profile.peak_unique_mb, run->profile.peak_rss_mb),
        .cpu_seconds = run->profile.cpu_seconds,
        .duration_seconds = job_duration_seconds(run),
        .outcome = run->outcome,
        .was_killed_for_memory = was_killed_for_memory(run),
    };
    return true;
}

/* ---- percentiles ---- */

struct spread {
    size_t count;
    double low;
    double usual;
    double high;
    double most;
};

/* The spread of the figure at `offset`; `values` has room for `count` numbers. */
static struct spread spread_of(const struct run_need *needs, size_t count, size_t offset,
                               double *values)
{
    const struct learn_constants *constants = &learn_constants_default;
    struct spread spread = {
        .low = REAL_UNKNOWN, .usual = REAL_UNKNOWN, .high = REAL_UNKNOWN, .most = REAL_UNKNOWN};
    double bound = REAL_UNKNOWN;

    for (size_t i = 0; i < count; i++) {
        double value = *(const double *)((const char *)&needs[i] + offset);
        if (!real_is_known(value))
            continue;
        if (needs[i].was_killed_for_memory)
            bound = fmax(bound, value);
        else
            values[spread.count++] = value;
    }
    if (spread.count) {
        spread.low = quantile(values, spread.count, constants->percentile_low);
        spread.usual = quantile(values, spread.count, constants->percentile_usual);
        spread.high = quantile(values, spread.count, constants->percentile_high);
        spread.most = quantile(values, spread.count, constants->percentile_most);
    }
    spread.most = fmax(spread.most, bound);
    return spread;
}

static double confidence_of(const struct spread *memory)
{
    double runs = (double)memory->count;
    double range = memory->high - memory->low;

    if (!memory->count || (range > 0 && memory->usual <= 0))
        return 0;
    double unlikeness = range > 0 ? range / memory->usual : 0;
    return runs / (runs + learn_constants_default.estimate_half_runs) / (1 + unlikeness);
}

/* Sets the sample size and the failure rate. */
static void count_runs(const struct run_need *needs, size_t count,
                       struct resource_estimate *estimate)
{
    size_t known = 0, failed = 0;

    estimate->sample_size = 0;
    for (size_t i = 0; i < count; i++) {
        estimate->sample_size += !needs[i].was_killed_for_memory;
        known += needs[i].outcome != OUTCOME_UNKNOWN;
        failed += needs[i].outcome == OUTCOME_FAILURE;
    }
    estimate->failure_rate = known ? (double)failed / (double)known : REAL_UNKNOWN;
}

int estimate_of_needs(const struct run_need *needs, size_t count, double *scratch,
                      struct resource_estimate *ret)
{
    if (!count)
        return -ENODATA;
    const struct spread memory =
        spread_of(needs, count, offsetof(struct run_need, memory_mb), scratch);
    const struct spread cpu =
        spread_of(needs, count, offsetof(struct run_need, cpu_seconds), scratch);
    const struct spread duration =
        spread_of(needs, count, offsetof(struct run_need, duration_seconds), scratch);

    record_init(&resource_estimate_record, ret);
    count_runs(needs, count, ret);
    ret->peak_memory_mb_p50 = memory.usual;
    ret->estimated_peak_memory_mb = ret->peak_memory_mb_p95 = memory.most;
    ret->estimated_cpu_seconds = ret->cpu_seconds_p50 = cpu.usual;
    ret->cpu_seconds_p95 = cpu.most;
    ret->estimated_duration_seconds = ret->duration_seconds_p50 = duration.usual;
    ret->duration_seconds_p95 = duration.most;
    ret->confidence = confidence_of(&memory);
    return 0;
}

int estimate_make(const struct job_list *runs, struct resource_estimate *ret)
{
    size_t room = MAX(runs->count, (size_t)1), count = 0;
    _cleanup_free_ struct run_need *needs = malloc(room * sizeof(*needs));
    _cleanup_free_ double *scratch = malloc(room * sizeof(*scratch));

    if (!needs || !scratch)
        return -ENOMEM;
    for (size_t i = 0; i < runs->count; i++)
        count += run_need_of(&runs->items[i], &needs[count]);
    return estimate_of_needs(needs, count, scratch, ret);
}
