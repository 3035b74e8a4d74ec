#include "learn/correlation.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/human.h"
#include "base/macros.h"
#include "base/text.h"
#include "model/process.h"
#include "stats/benjamini-hochberg.h"
#include "stats/fisher.h"
#include "stats/quantile.h"
#include "stats/wilson.h"

/* Fits a system call with its source, and "without" with a type of anomaly. */
#define NAME_MAX_BYTES 96
#define TAG_MAX_BYTES  (NAME_MAX_BYTES + 32)
#define TAGS_MAX       6

struct run_tally {
    size_t runs;
    size_t failures;
};

struct group {
    enum figure figure;
    const char *job_type; /* NULL: of any type */
    char name[NAME_MAX_BYTES];
    char label[NAME_MAX_BYTES];   /* "a peak RSS of 1-2GB" in "runs with a peak RSS of 1-2GB" */
    char more_tag[TAG_MAX_BYTES]; /* a second tag; empty: none */
    const char *tag_value;        /* NULL: the name */
    struct run_tally own;
    struct run_tally all; /* all runs of the type whose figure is known */
    double p, q;
};

struct run_list LIST(const struct past_run);

struct finder {
    const struct history *history;
    const struct learn_constants *constants;
    struct run_list runs; /* those to compare: of one type, or all */
    struct VEC(struct group) groups;

    struct VEC(struct run_list) types; /* the runs of each type that can be analyzed */
    size_t largest_type;               /* number of runs of the type with most runs */
};

static void count_run(struct run_tally *tally, const struct past_run *run)
{
    tally->runs++;
    tally->failures += run->has_failed;
}

static double rate_of(const struct run_tally *tally)
{
    return (double)tally->failures / (double)tally->runs;
}

/* 0.3 - 0.2 is slightly less than 0.1. */
static bool is_at_least(double value, double bound)
{
    return value >= bound - 1e-9;
}

/* Small groups prove nothing, and a group of all runs has no others to compare with. */
static int add_group(struct finder *finder, struct group *group)
{
    if (group->own.runs < finder->constants->group_runs_min || group->own.runs == group->all.runs)
        return 0;
    group->job_type = finder->runs.items[0].job_type;
    return VEC_PUSH(&finder->groups, *group);
}

/* ---- bins ---- */

struct binning {
    enum figure figure;
    double (*value)(const struct past_run *run);
    const struct bin *bins;
    size_t count;
    const char *label; /* followed by the name of the bin */
};

static double memory_of(const struct past_run *run)
{
    return run->memory_mb;
}

static double cpu_of(const struct past_run *run)
{
    return run->cpu_seconds;
}

static double duration_of(const struct past_run *run)
{
    return run->duration_seconds;
}

static size_t find_bin(const struct binning *binning, double value)
{
    size_t bin = 0;

    while (bin + 1 < binning->count && !(value < binning->bins[bin].below))
        bin++;
    return bin;
}

static int add_bins(struct finder *finder, const struct binning *binning,
                    void (*describe)(const struct binning *binning, size_t bin,
                                     struct group *group))
{
    struct run_tally tallies[BINS_MAX] = {0}, all = {0};
    int r = 0;

    for (size_t i = 0; i < finder->runs.count; i++) {
        const struct past_run *run = &finder->runs.items[i];
        double value = binning->value(run);
        if (!real_is_known(value))
            continue;
        count_run(&all, run);
        count_run(&tallies[find_bin(binning, value)], run);
    }
    for (size_t i = 0; i < binning->count && r == 0; i++) {
        struct group group = {.figure = binning->figure, .own = tallies[i], .all = all};
        describe(binning, i, &group);
        r = add_group(finder, &group);
    }
    return r;
}

static void describe_bin(const struct binning *binning, size_t bin, struct group *group)
{
    snprintf(group->name, sizeof(group->name), "%s", binning->bins[bin].name);
    snprintf(group->label, sizeof(group->label), "%s %s", binning->label, binning->bins[bin].name);
}

static int add_memory(struct finder *finder)
{
    const struct binning binning = {.figure = FIGURE_MEMORY,
                                    .value = memory_of,
                                    .bins = finder->constants->memory_bins,
                                    .count = BINS_MAX,
                                    .label = "a peak RSS of"};
    return add_bins(finder, &binning, describe_bin);
}

static int add_durations(struct finder *finder)
{
    const struct binning binning = {.figure = FIGURE_DURATION,
                                    .value = duration_of,
                                    .bins = finder->constants->duration_bins,
                                    .count = BINS_MAX,
                                    .label = "a duration of"};
    return add_bins(finder, &binning, describe_bin);
}

/* ---- quarters of CPU seconds ---- */

#define QUARTERS 4

/* The name has the number of the quartile, which stays the same when the bounds move. */
static void describe_quarter(const struct binning *binning, size_t bin, struct group *group)
{
    static const char *const names[QUARTERS] = {"quartile 1", "quartile 2", "quartile 3",
                                                "quartile 4"};
    double from = bin ? binning->bins[bin - 1].below : 0, to = binning->bins[bin].below;
    struct human low, high;

    snprintf(group->name, sizeof(group->name), "%s", names[bin]);
    group->tag_value = binning->bins[bin].name;
    if (isinf(to)) {
        snprintf(group->label, sizeof(group->label), "%s of CPU time or more",
                 human_duration(&low, from));
        snprintf(group->more_tag, sizeof(group->more_tag), "cpu_seconds:>=%.3f", from);
    } else {
        if (from > 0)
            snprintf(group->label, sizeof(group->label), "%s to %s of CPU time",
                     human_duration(&low, from), human_duration(&high, to));
        else
            snprintf(group->label, sizeof(group->label), "less than %s of CPU time",
                     human_duration(&high, to));
        snprintf(group->more_tag, sizeof(group->more_tag), "cpu_seconds:%.3f-%.3f", from, to);
    }
}

static int add_cpu(struct finder *finder)
{
    static const char *const numbers[QUARTERS] = {"1", "2", "3", "4"};
    const struct run_list *runs = &finder->runs;
    struct bin bins[QUARTERS];
    size_t count = 0;
    _cleanup_free_ double *values = malloc(MAX(runs->count, (size_t)1) * sizeof(*values));

    if (!values)
        return -ENOMEM;
    for (size_t i = 0; i < runs->count; i++)
        if (real_is_known(runs->items[i].cpu_seconds))
            values[count++] = runs->items[i].cpu_seconds;
    if (!count)
        return 0;
    for (size_t i = 0; i < QUARTERS; i++)
        bins[i] = (struct bin){numbers[i],
                               i + 1 < QUARTERS
                                   ? quantile(values, count, finder->constants->cpu_quantiles[i])
                                   : (double)INFINITY};
    const struct binning binning = {
        .figure = FIGURE_CPU, .value = cpu_of, .bins = bins, .count = QUARTERS};
    return add_bins(finder, &binning, describe_quarter);
}

/* ---- system calls ---- */

static void describe_call(const char *call, int source, struct group *group)
{
    const char *from = syscall_source_names[source];

    if (from)
        snprintf(group->name, sizeof(group->name), "%s (%s)", call, from);
    else
        snprintf(group->name, sizeof(group->name), "%s", call);
    snprintf(group->label, sizeof(group->label), "most system call time in %s", call);
    group->tag_value = call;
    if (from)
        snprintf(group->more_tag, sizeof(group->more_tag), "syscall_source:%s", from);
}

/* Each source separately: one measures shares and another samples them. */
static int add_calls_of(struct finder *finder, int source)
{
    const struct history *history = finder->history;
    size_t count = history->calls.count;
    _cleanup_free_ struct run_tally *tallies = calloc(count, sizeof(*tallies));
    struct run_tally all = {0};
    int r = tallies ? 0 : -ENOMEM;

    for (size_t i = 0; i < finder->runs.count && r == 0; i++) {
        const struct past_run *run = &finder->runs.items[i];
        if (!run->has_calls || run->call_source != source)
            continue;
        count_run(&all, run);
        for (size_t k = 0; k < RUN_CALLS_MAX && run->calls[k]; k++)
            count_run(&tallies[run->calls[k] - 1], run);
    }
    for (size_t i = 0; i < count && r == 0; i++) {
        struct group group = {.figure = FIGURE_SYSCALL, .own = tallies[i], .all = all};
        describe_call(history->calls.items[i], source, &group);
        r = add_group(finder, &group);
    }
    return r;
}

static int add_calls(struct finder *finder)
{
    int r = 0;

    for (int source = 0; source < SYSCALL_SOURCE_COUNT && r == 0; source++)
        if (finder->history->calls.count)
            r = add_calls_of(finder, source);
    return r;
}

/* ---- anomalies ---- */

static void describe_anomaly(const char *type, bool is_without, struct group *group)
{
    snprintf(group->name, sizeof(group->name), "%s%s", is_without ? "without " : "", type);
    snprintf(group->label, sizeof(group->label), "%s %s", is_without ? "no" : "a", type);
    group->tag_value = type;
    if (is_without)
        snprintf(group->more_tag, sizeof(group->more_tag), "anomaly_present:no");
}

/* Tests the runs with the anomaly and those without it. */
static int add_anomaly(struct finder *finder, size_t number)
{
    const char *type = finder->history->anomalies.items[number];
    struct run_tally with = {0}, without = {0};

    for (size_t i = 0; i < finder->runs.count; i++) {
        const struct past_run *run = &finder->runs.items[i];
        count_run(run->anomalies & (UINT32_C(1) << number) ? &with : &without, run);
    }
    struct group group = {.figure = FIGURE_ANOMALY,
                          .all = {with.runs + without.runs, with.failures + without.failures}};
    group.own = with;
    describe_anomaly(type, false, &group);
    int r = add_group(finder, &group);
    if (r < 0)
        return r;
    group.own = without;
    describe_anomaly(type, true, &group);
    return add_group(finder, &group);
}

static int add_anomalies(struct finder *finder)
{
    int r = 0;

    for (size_t i = 0; i < finder->history->anomalies.count && r == 0; i++)
        r = add_anomaly(finder, i);
    return r;
}

/* ---- tests ---- */

/* Tests all groups before any is dropped, because the correction must count every test. */
static int test_groups(struct finder *finder)
{
    size_t count = finder->groups.count;
    _cleanup_free_ struct hypothesis_test *tests = malloc(MAX(count, (size_t)1) * sizeof(*tests));

    if (!tests)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct group *group = &finder->groups.items[i];
        size_t rest_runs = group->all.runs - group->own.runs;
        size_t rest_failures = group->all.failures - group->own.failures;
        group->p = fisher_exact((int64_t)group->own.failures,
                                (int64_t)(group->own.runs - group->own.failures),
                                (int64_t)rest_failures, (int64_t)(rest_runs - rest_failures));
        tests[i] = (struct hypothesis_test){.p = group->p, .number = i};
    }
    benjamini_hochberg(tests, count);
    for (size_t i = 0; i < count; i++)
        finder->groups.items[tests[i].number].q = tests[i].q;
    return 0;
}

/* ---- texts ---- */

static const char *action_for(const struct group *group, double deviation)
{
    static const char *const actions[FIGURE_COUNT] = {
        [FIGURE_MEMORY] = "give such runs more memory, or smaller units of work; start them with"
                          " --admit",
        [FIGURE_CPU] = "check what such runs compute, and their time limits",
        [FIGURE_SYSCALL] = "check what such runs do with this call; `sonde report` shows their"
                           " system calls",
        [FIGURE_ANOMALY] = "fix the anomaly first; `sonde report` shows when it began",
        [FIGURE_DURATION] = "check the time limits of such runs, and what they wait for",
    };

    return deviation > 0 ? actions[group->figure] : NULL;
}

static const char *format_text(struct arena *arena, const char *format, ...) _printf_(2, 3);

/* Allocated in the arena; NULL if out of memory. */
static const char *format_text(struct arena *arena, const char *format, ...)
{
    _cleanup_text_ struct text text = {0};
    va_list arguments;

    va_start(arguments, format);
    text_vprintf(&text, format, arguments);
    va_end(arguments);
    return text_error(&text) < 0 ? NULL : arena_strdup(arena, text_string(&text));
}

static const char *describe(const struct group *group, double deviation, struct arena *arena)
{
    return format_text(arena,
                       "runs%s%s with %s fail %s often: %zu of %zu (%.0f %%), against %.0f %% of"
                       " all %zu",
                       group->job_type ? " of " : "", group->job_type ? group->job_type : "",
                       group->label, deviation > 0 ? "more" : "less", group->own.failures,
                       group->own.runs, 100 * rate_of(&group->own), 100 * rate_of(&group->all),
                       group->all.runs);
}

static int make_tags(const struct group *group, const struct figure_constants *figure,
                     const struct correlation *correlation, struct arena *arena,
                     struct text_list *ret)
{
    const char **tags = arena_alloc(arena, TAGS_MAX * sizeof(*tags));
    size_t count = 0;

    if (!tags)
        return -ENOMEM;
    tags[count++] =
        format_text(arena, "%s:%s", figure->tag, group->tag_value ? group->tag_value : group->name);
    if (group->more_tag[0])
        tags[count++] = arena_strdup(arena, group->more_tag);
    if (group->job_type)
        tags[count++] = format_text(arena, "job_type:%s", group->job_type);
    tags[count++] = format_text(arena, "failure_rate:%.2f", correlation->failure_rate);
    tags[count++] = format_text(arena, "sample_size:%zu", group->own.runs);
    tags[count++] =
        format_text(arena, "significant:%s", correlation->significant == TRUTH_YES ? "yes" : "no");
    for (size_t i = 0; i < count; i++)
        if (!tags[i])
            return -ENOMEM;
    *ret = (struct text_list){.items = tags, .count = count};
    return 0;
}

/* ---- findings ---- */

static double confidence_of(const struct learn_constants *constants, const struct group *group,
                            double share, double deviation)
{
    const struct figure_constants *figure = &constants->figures[group->figure];

    return fmin(figure->confidence_max, constants->confidence_base +
                                            constants->confidence_share_weight * share +
                                            figure->confidence_weight * fabs(deviation));
}

static int make_correlation(const struct finder *finder, const struct group *group,
                            struct arena *arena, struct correlation *ret)
{
    const struct figure_constants *figure = &finder->constants->figures[group->figure];
    double rate = rate_of(&group->own), baseline = rate_of(&group->all);
    double share = (double)group->own.runs / (double)group->all.runs;
    struct interval interval =
        wilson_interval((int64_t)group->own.failures, (int64_t)group->own.runs);

    *ret = (struct correlation){
        .job_type = group->job_type ? arena_strdup(arena, group->job_type) : NULL,
        .pattern_name =
            format_text(arena, "[%s_vs_failure] %s%s%s", figure->name, group->name,
                        group->job_type ? " of " : "", group->job_type ? group->job_type : ""),
        .description = describe(group, rate - baseline, arena),
        .figure = figure->name,
        .group = arena_strdup(arena, group->name),
        .runs = (int64_t)group->own.runs,
        .failures = (int64_t)group->own.failures,
        .failure_rate = rate,
        .rate_low = interval.low,
        .rate_high = interval.high,
        .baseline_rate = baseline,
        .deviation = rate - baseline,
        .share = share,
        .confidence = confidence_of(finder->constants, group, share, rate - baseline),
        .p_value = group->p,
        .q_value = group->q,
        .significant = truth_of(group->q <= finder->constants->significant_q_max),
        .suggested_action = action_for(group, rate - baseline),
    };
    if (!ret->pattern_name || !ret->description || !ret->group ||
        (group->job_type && !ret->job_type))
        return -ENOMEM;
    return make_tags(group, figure, ret, arena, &ret->context_tags);
}

static int compare_correlations(const void *a, const void *b)
{
    const struct correlation *left = a, *right = b;

    if (left->q_value != right->q_value)
        return left->q_value < right->q_value ? -1 : 1;
    if (left->p_value != right->p_value)
        return left->p_value < right->p_value ? -1 : 1;
    if (left->confidence != right->confidence)
        return left->confidence > right->confidence ? -1 : 1;
    return strcmp(left->pattern_name, right->pattern_name);
}

static bool deviates(const struct finder *finder, const struct group *group)
{
    return is_at_least(fabs(rate_of(&group->own) - rate_of(&group->all)),
                       finder->constants->deviation_min);
}

static int make_list(const struct finder *finder, struct arena *arena, struct correlation_list *ret)
{
    struct correlation_list list = {
        .items = arena_alloc(arena, (finder->groups.count + 1) * sizeof(*list.items))};
    int r = list.items ? 0 : -ENOMEM;

    for (size_t i = 0; i < finder->groups.count && r == 0; i++)
        if (deviates(finder, &finder->groups.items[i]))
            r = make_correlation(finder, &finder->groups.items[i], arena,
                                 &list.items[list.count++]);
    if (r < 0)
        return r;
    qsort(list.items, list.count, sizeof(*list.items), compare_correlations);
    *ret = list;
    return 0;
}

static int find_groups(struct finder *finder)
{
    int (*const steps[])(struct finder * finder) = {add_memory, add_cpu, add_calls, add_anomalies,
                                                    add_durations};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(steps) && r == 0; i++)
        r = steps[i](finder);
    return r;
}

/* Lists the types that have enough runs, and both failures and successes. */
static int find_types(struct finder *finder, int64_t min_sample_size)
{
    const struct past_run *runs = finder->history->runs.items;
    size_t first = 0, end, count = finder->history->runs.count;
    int r = 0;

    for (; first < count && r == 0; first = end) {
        struct run_tally all = {0};
        for (end = first; end < count && runs[end].job_type == runs[first].job_type; end++)
            count_run(&all, &runs[end]);
        finder->largest_type = MAX(finder->largest_type, all.runs);
        const struct run_list type = {.items = &runs[first], .count = all.runs};
        if ((int64_t)all.runs >= min_sample_size && all.failures && all.failures < all.runs)
            r = VEC_PUSH(&finder->types, type);
    }
    return r;
}

static int compare_sizes(const void *a, const void *b)
{
    const struct run_list *left = a, *right = b;

    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return left->items < right->items ? -1 : 1;
}

/* Groups the runs of each type; if there are too many types, of those with the most runs. */
static int find_groups_of_types(struct finder *finder, int64_t min_sample_size)
{
    int r = find_types(finder, min_sample_size);

    if (finder->types.count > finder->constants->types_max)
        qsort(finder->types.items, finder->types.count, sizeof(finder->types.items[0]),
              compare_sizes);
    for (size_t i = 0; i < MIN(finder->types.count, finder->constants->types_max) && r == 0; i++) {
        finder->runs = finder->types.items[i];
        r = find_groups(finder);
    }
    return r;
}

/* ---- the verdict ---- */

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static int set_verdict(const struct finder *finder, struct arena *arena, struct analysis *analysis)
{
    const struct history *history = finder->history;
    size_t runs = history->runs.count, failures = history->failures;
    int64_t needed = analysis->min_sample_size;

    if (!runs && history->without_outcome) {
        analysis->verdict = VERDICT_NO_OUTCOMES;
        analysis->message = format_text(
            arena, "%zu run%s ended, none with a known outcome; %lld are needed",
            history->without_outcome, plural(history->without_outcome), (long long)needed);
    } else if ((int64_t)finder->largest_type < needed) {
        analysis->verdict = VERDICT_TOO_FEW_RUNS;
        analysis->message = format_text(arena,
                                        "too few runs%s: %zu with a known outcome, %lld are needed"
                                        " (profiler.correlation.min_sample_size)",
                                        runs > finder->largest_type ? " of one type" : "",
                                        finder->largest_type, (long long)needed);
    } else if (failures == 0 || failures == runs) {
        analysis->verdict = VERDICT_ALL_ALIKE;
        analysis->message =
            format_text(arena, "%s of %zu run%s failed: there is nothing to compare",
                        failures ? "all" : "none", runs, plural(runs));
    } else if (!finder->types.count) {
        analysis->verdict = VERDICT_ALL_ALIKE;
        analysis->message = format_text(arena,
                                        "no type of job with at least %lld runs has both failed"
                                        " and successful ones: there is nothing to compare"
                                        " (--all-types compares runs of different types)",
                                        (long long)needed);
    } else if (!analysis->groups_tested) {
        analysis->verdict = VERDICT_NOTHING_FOUND;
        analysis->message = format_text(arena, "too few runs in any group to compare");
    } else if (!analysis->correlations.count) {
        analysis->verdict = VERDICT_NOTHING_FOUND;
        analysis->message = format_text(
            arena,
            "no resource use goes with failure: none of %lld groups of at least %zu runs"
            " fails %.0f points more or less often than all",
            (long long)analysis->groups_tested, history->constants->group_runs_min,
            100 * history->constants->deviation_min);
    } else {
        analysis->verdict = VERDICT_FOUND;
        analysis->message =
            format_text(arena, "%zu of %lld groups of runs deviate", analysis->correlations.count,
                        (long long)analysis->groups_tested);
    }
    return analysis->message ? 0 : -ENOMEM;
}

int correlation_find(struct history *history, int64_t min_sample_size, struct arena *arena,
                     struct analysis *ret)
{
    struct finder finder = {.history = history, .constants = history->constants};
    struct analysis analysis = *ret;

    analysis.runs = (int64_t)history->runs.count;
    analysis.failures = (int64_t)history->failures;
    analysis.failure_rate = history->runs.count
                                ? (double)history->failures / (double)history->runs.count
                                : REAL_UNKNOWN;
    analysis.runs_without_outcome = (int64_t)history->without_outcome;
    analysis.min_sample_size = min_sample_size;
    history_sort(history);
    int r = find_groups_of_types(&finder, min_sample_size);
    if (r == 0)
        r = test_groups(&finder);
    if (r == 0)
        r = make_list(&finder, arena, &analysis.correlations);
    analysis.groups_tested = (int64_t)finder.groups.count;
    analysis.types_left_out =
        (int64_t)(finder.types.count - MIN(finder.types.count, history->constants->types_max));
    if (r == 0)
        r = set_verdict(&finder, arena, &analysis);
    VEC_DONE(&finder.groups);
    VEC_DONE(&finder.types);
    if (r == 0)
        *ret = analysis;
    return r;
}

/* ---- patterns ---- */

int correlation_patterns(const struct correlation_list *correlations,
                         const struct learn_constants *constants, double now, struct arena *arena,
                         struct pattern_list *ret)
{
    struct pattern_list list = {
        .items = arena_alloc(arena, (correlations->count + 1) * sizeof(*list.items))};

    if (!list.items)
        return -ENOMEM;
    for (size_t i = 0; i < correlations->count; i++) {
        const struct correlation *from = &correlations->items[i];
        if (!is_at_least(from->confidence, constants->kept_confidence_min))
            continue;
        list.items[list.count++] = (struct pattern){
            .pattern_type = CORRELATION_PATTERN,
            .pattern_name = from->pattern_name,
            .description = from->description,
            .context_tags = from->context_tags,
            .suggested_action = from->suggested_action,
            .confidence = from->confidence,
            .first_seen = now,
            .last_seen = now,
            .occurrences = 1,
        };
    }
    *ret = list;
    return 0;
}
