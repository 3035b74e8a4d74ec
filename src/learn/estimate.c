#include "learn/estimate.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "model/cause.h"
#include "stats/quantile.h"

/* How many runs make half of the confidence that there can be. */
#define CONFIDENCE_RUNS 5

static bool has_finished(const struct job *run)
{
    if (run->outcome == OUTCOME_UNKNOWN)
        return !run->cause || strcmp(run->cause, "lost") != 0;
    return run->outcome == OUTCOME_SUCCESS || run->outcome == OUTCOME_FAILURE;
}

/* Whether `word` stands in the text by itself, in any case: "OOM", not "room". */
static bool says(const char *text, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = text; (at = strcasestr(at, word)); at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]))
            return true;
    return false;
}

/* Whether the cause is what sonde makes of the chain: then only the chain counts, for the words
 * name programs, and one of them may be called so. */
static bool is_derived(const struct job *run)
{
    char cause[CAUSE_MAX_BYTES + 1];

    cause_format(&run->chain, cause);
    return run->cause && run->chain.count && strcmp(cause, run->cause) == 0;
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
    static const char *const words[] = {"OOM", "out of memory", "killed for memory",
                                        "want of memory"};

    if (run->outcome == OUTCOME_SUCCESS)
        return false;
    if (run->outcome == OUTCOME_FAILURE && run->profile.oom_count > 0)
        return true;
    if (is_derived(run))
        return has_oom(&run->chain);
    for (size_t i = 0; i < ARRAY_SIZE(words) && run->cause; i++)
        if (says(run->cause, words[i]))
            return true;
    return false;
}

/* ---- figures of one run ---- */

typedef double (*figure_fn)(const struct job *run);

/* Of all processes together, as admission counts it. A short run may have ended before a sample saw
 * it at its largest; the kernel's figure of its largest process is then nearer to it. */
static double peak_memory_mb(const struct job *run)
{
    return fmax(run->profile.peak_unique_mb, run->profile.peak_rss_mb);
}

static double cpu_seconds(const struct job *run)
{
    return run->profile.total_cpu_seconds;
}

static double duration_seconds(const struct job *run)
{
    if (real_is_known(run->profile.wall_seconds))
        return run->profile.wall_seconds;
    return run->ended_at - run->started_at;
}

/* ---- figures of all of them ---- */

struct spread {
    size_t count;
    double p25;
    double p50;
    double p75;
    double p95;
};

/* `values` has room for all. */
static struct spread spread_of(const struct job_list *runs, figure_fn figure, double *values)
{
    struct spread spread = {
        .p25 = REAL_UNKNOWN, .p50 = REAL_UNKNOWN, .p75 = REAL_UNKNOWN, .p95 = REAL_UNKNOWN};
    double bound = REAL_UNKNOWN;

    for (size_t i = 0; i < runs->count; i++) {
        const struct job *run = &runs->items[i];
        double value = figure(run);
        if (!has_finished(run) || !real_is_known(value))
            continue;
        if (was_killed_for_memory(run))
            bound = fmax(bound, value);
        else
            values[spread.count++] = value;
    }
    if (spread.count) {
        spread.p25 = quantile(values, spread.count, 0.25);
        spread.p50 = quantile(values, spread.count, 0.50);
        spread.p75 = quantile(values, spread.count, 0.75);
        spread.p95 = quantile(values, spread.count, 0.95);
    }
    spread.p95 = fmax(spread.p95, bound);
    return spread;
}

static double confidence_of(const struct spread *memory)
{
    double runs = (double)memory->count;
    double range = memory->p75 - memory->p25;

    if (!memory->count || (range > 0 && memory->p50 <= 0))
        return 0;
    double unlikeness = range > 0 ? range / memory->p50 : 0;
    return runs / (runs + CONFIDENCE_RUNS) / (1 + unlikeness);
}

/* How many there are to learn from, and what became of them. */
static void count_runs(const struct job_list *runs, struct resource_estimate *estimate,
                       size_t *ret_finished)
{
    size_t known = 0, failed = 0;

    *ret_finished = 0;
    estimate->sample_size = 0;
    for (size_t i = 0; i < runs->count; i++) {
        const struct job *run = &runs->items[i];
        if (!has_finished(run))
            continue;
        ++*ret_finished;
        estimate->sample_size += !was_killed_for_memory(run);
        known += run->outcome != OUTCOME_UNKNOWN;
        failed += run->outcome == OUTCOME_FAILURE;
    }
    estimate->failure_rate = known ? (double)failed / (double)known : REAL_UNKNOWN;
}

int estimate_make(const struct job_list *runs, struct resource_estimate *ret)
{
    struct resource_estimate estimate;
    size_t finished;

    record_init(&resource_estimate_record, &estimate);
    count_runs(runs, &estimate, &finished);
    if (!finished)
        return -ENODATA;
    _cleanup_free_ double *values = malloc(runs->count * sizeof(*values));
    if (!values)
        return -ENOMEM;

    const struct spread memory = spread_of(runs, peak_memory_mb, values);
    const struct spread cpu = spread_of(runs, cpu_seconds, values);
    const struct spread duration = spread_of(runs, duration_seconds, values);
    estimate.peak_memory_mb_p50 = memory.p50;
    estimate.estimated_peak_memory_mb = estimate.peak_memory_mb_p95 = memory.p95;
    estimate.estimated_cpu_seconds = estimate.cpu_seconds_p50 = cpu.p50;
    estimate.cpu_seconds_p95 = cpu.p95;
    estimate.estimated_duration_seconds = estimate.duration_seconds_p50 = duration.p50;
    estimate.duration_seconds_p95 = duration.p95;
    estimate.confidence = confidence_of(&memory);
    *ret = estimate;
    return 0;
}
