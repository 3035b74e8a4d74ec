/* Synthetic histories: planted causes are found, and no others. */
#include "unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "learn/correlation.h"
#include "model/process.h"

#define SHUFFLES 200

static struct history history;
static struct arena arena;
static struct analysis analysis;

static int start(void **state _unused_)
{
    history_init(&history, &learn_constants_default, true);
    record_init(&analysis_record, &analysis);
    srand(7);
    return 0;
}

static int finish(void **state _unused_)
{
    history_done(&history);
    arena_done(&arena);
    return 0;
}

static struct run_digest digest_of(bool has_failed, double memory_mb)
{
    struct run_digest run = {0};

    record_init(&job_record, &run.job);
    run.job.outcome = has_failed ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
    run.job.profile.peak_rss_mb = memory_mb;
    return run;
}

static void add(const struct run_digest *run)
{
    assert_int_equal(history_add(&history, run), 0);
}

static void find(void)
{
    assert_int_equal(correlation_find(&history, 5, &arena, &analysis), 0);
}

static const struct correlation *get(const char *name)
{
    for (size_t i = 0; i < analysis.correlations.count; i++)
        if (strcmp(analysis.correlations.items[i].pattern_name, name) == 0)
            return &analysis.correlations.items[i];
    return NULL;
}

static const struct correlation *need(const char *name)
{
    const struct correlation *found = get(name);

    if (!found)
        fail_msg("there is no %s", name);
    return found;
}

static bool has_tag(const struct text_list *tags, const char *tag)
{
    for (size_t i = 0; i < tags->count; i++)
        if (strcmp(tags->items[i], tag) == 0)
            return true;
    return false;
}

static double chance(void)
{
    return (double)rand() / RAND_MAX;
}

/* ---- job types ---- */

static void add_typed(const char *type, size_t count, size_t failures, double memory_mb)
{
    for (size_t i = 0; i < count; i++) {
        struct run_digest run = digest_of(i < failures, memory_mb);
        run.job.job_type = type;
        add(&run);
    }
}

/* Types of different size fail at different rates. Within the type "train", size matters, too. */
static void plant_types(void)
{
    add_typed("train", 20, 18, 3000);
    add_typed("lint", 12, 1, 100);
    add_typed("train", 20, 2, 700);
    add_typed("lint", 13, 1, 300);
    add_typed("rare", 4, 2, 3000);
    add_typed(NULL, 6, 0, 100);
}

static void test_each_type_by_itself(void **state _unused_)
{
    plant_types();
    find();
    assert_int_equal(analysis.runs, 75);
    assert_int_equal(analysis.failures, 24);
    assert_int_equal(analysis.groups_tested, 4); /* two bins of two types */
    assert_int_equal(analysis.correlations.count, 2);
    const struct correlation *found = need("[memory_vs_failure] >2GB of train");
    assert_string_equal(found->job_type, "train");
    assert_string_equal(found->group, ">2GB");
    assert_int_equal(found->runs, 20);
    assert_near(found->baseline_rate, 0.5, 1e-12);
    assert_near(found->share, 0.5, 1e-12);
    assert_true(has_tag(&found->context_tags, "job_type:train"));
    assert_true(has_tag(&found->context_tags, "memory_bin:>2GB"));
    assert_string_equal(found->description,
                        "runs of train with a peak RSS of >2GB fail more often: "
                        "18 of 20 (90 %), against 50 % of all 40");
    /* One family: two tests of each type. Both of "train" have the same p, by symmetry. */
    assert_near(found->q_value / (2 * found->p_value), 1, 1e-9);
}

static void test_all_types_together(void **state _unused_)
{
    history_done(&history);
    history_init(&history, &learn_constants_default, false);
    plant_types();
    find();
    const struct correlation *found = need("[memory_vs_failure] >2GB");
    assert_null(found->job_type);
    assert_int_equal(found->runs, 24);
    assert_near(found->baseline_rate, 24.0 / 75, 1e-12);
    assert_false(has_tag(&found->context_tags, "job_type:train"));
}

/* The types with the most runs are analyzed; the others are counted. */
static void test_limit_of_types(void **state _unused_)
{
    struct learn_constants constants = learn_constants_default;
    char name[16];

    history_done(&history);
    constants.types_max = 3;
    history_init(&history, &constants, true);
    for (size_t i = 0; i < 6; i++) {
        snprintf(name, sizeof(name), "type-%zu", i);
        add_typed(name, 4 + i, 4 + i, 3000);
        add_typed(name, 4 + i, 0, 100);
    }
    find();
    assert_int_equal(analysis.types_left_out, 3);
    assert_int_equal(analysis.groups_tested, 6);
    for (size_t i = 0; i < analysis.correlations.count; i++)
        assert_true(strcmp(analysis.correlations.items[i].job_type, "type-3") >= 0);
}

static void test_verdicts_of_types(void **state _unused_)
{
    add_typed("a", 4, 2, 100);
    add_typed("b", 4, 0, 3000);
    find();
    assert_int_equal(analysis.verdict, VERDICT_TOO_FEW_RUNS);
    assert_non_null(strstr(analysis.message, "too few runs of one type: 4 with a known outcome"));
    add_typed("b", 6, 0, 100);
    find();
    assert_int_equal(analysis.verdict, VERDICT_ALL_ALIKE);
    assert_non_null(strstr(analysis.message, "no type of job with at least 5 runs has both"));
    add_typed("b", 1, 1, 100);
    find();
    assert_int_equal(analysis.verdict, VERDICT_NOTHING_FOUND);
    assert_int_equal(analysis.groups_tested, 2);
}

/* ---- a planted cause ---- */

/* 200 runs; of the 50 above 1 GB 40 fail, of the 150 others 15. */
static void plant(void)
{
    for (int i = 0; i < 200; i++) {
        bool is_large = i % 4 == 0;
        bool has_failed = is_large ? i / 4 % 5 != 0 : (i - i / 4 - 1) % 10 == 0;
        struct run_digest run =
            digest_of(has_failed, is_large ? 1100 + 4 * (i % 200) : 20 + 4 * (i % 200));
        run.job.profile.cpu_seconds = 1 + 9 * chance();
        run.job.profile.wall_seconds = 100 * chance();
        add(&run);
    }
}

static void test_a_planted_cause_is_found(void **state _unused_)
{
    plant();
    find();
    assert_int_equal(analysis.verdict, VERDICT_FOUND);
    assert_int_equal(analysis.runs, 200);
    assert_int_equal(analysis.failures, 55);
    assert_near(analysis.failure_rate, 0.275, 1e-12);

    /* The planted bin is found, and is the first of all findings. */
    const struct correlation *found = need("[memory_vs_failure] 1-2GB");
    assert_ptr_equal(found, &analysis.correlations.items[0]);
    assert_string_equal(found->figure, "memory");
    assert_string_equal(found->group, "1-2GB");
    assert_int_equal(found->runs, 50);
    assert_int_equal(found->failures, 40);
    assert_near(found->failure_rate, 0.8, 1e-12);
    assert_near(found->baseline_rate, 0.275, 1e-12);
    assert_near(found->deviation, 0.525, 1e-12);
    assert_near(found->share, 0.25, 1e-12);
    /* R: prop.test(40, 50, correct = FALSE), fisher.test(matrix(c(40, 10, 15, 135), 2)) */
    assert_near(found->rate_low, 0.669628940677746, 1e-12);
    assert_near(found->rate_high, 0.887562499842239, 1e-12);
    assert_near(found->p_value / 2.2207010088242e-20, 1, 1e-9);
    assert_int_equal(found->significant, TRUTH_YES);
    assert_near(found->q_value / (found->p_value * (double)analysis.groups_tested), 1, 1e-9);
    /* min(0.95, 0.5 + 0.2 · 0.25 + 0.5 · 0.525) */
    assert_near(found->confidence, 0.8125, 1e-12);
    assert_true(has_tag(&found->context_tags, "memory_bin:1-2GB"));
    assert_true(has_tag(&found->context_tags, "failure_rate:0.80"));
    assert_true(has_tag(&found->context_tags, "sample_size:50"));
    assert_non_null(found->suggested_action);
    assert_string_equal(found->description, "runs with a peak RSS of 1-2GB fail more often: 40 of "
                                            "50 (80 %), against 28 % of all 200");

    const struct correlation *below = need("[memory_vs_failure] <256MB");
    assert_true(below->deviation < 0);
    assert_non_null(strstr(below->description, "less often"));
    assert_null(below->suggested_action);
    assert_null(get("[memory_vs_failure] >2GB")); /* there are none */
}

/* The same runs with shuffled outcomes: significant findings are then due to chance. */
static void test_shuffled_outcomes_are_not_significant(void **state _unused_)
{
    unsigned with_significant = 0, with_any = 0;

    plant();
    for (size_t i = 0; i < history.runs.count; i++) {
        history.runs.items[i].anomalies = i % 3 == 0;
        history.runs.items[i].has_calls = true;
        history.runs.items[i].calls[0] = (uint16_t)(1 + i % 2);
    }
    assert_int_equal(VEC_PUSH(&history.anomalies, "memory_spike"), 0);
    assert_int_equal(VEC_PUSH(&history.calls, "read"), 0);
    assert_int_equal(VEC_PUSH(&history.calls, "write"), 0);
    srand(1);
    for (int round = 0; round < SHUFFLES; round++) {
        for (size_t i = history.runs.count; i > 1; i--) {
            size_t other = (size_t)rand() % i;
            bool held = history.runs.items[i - 1].has_failed;
            history.runs.items[i - 1].has_failed = history.runs.items[other].has_failed;
            history.runs.items[other].has_failed = held;
        }
        record_init(&analysis_record, &analysis);
        find();
        bool is_significant = false;
        for (size_t i = 0; i < analysis.correlations.count; i++)
            is_significant |= analysis.correlations.items[i].significant == TRUTH_YES;
        with_significant += is_significant;
        with_any += analysis.correlations.count > 0;
        arena_reset(&arena);
    }
    print_message("# %u of %d shuffles gave a significant group, %u any group\n", with_significant,
                  SHUFFLES, with_any);
    assert_true(with_significant * 100 <= 8 * SHUFFLES);
    assert_true(with_any > 0); /* by confidence alone there would be findings */
}

/* ---- the groups that are tested ---- */

static void test_bins_at_their_bounds(void **state _unused_)
{
    static const struct {
        double mb;
        const char *name;
    } cases[] = {
        {0, "<256MB"},      {255.999, "<256MB"},    {256, "256-512MB"}, {511.999, "256-512MB"},
        {512, "512MB-1GB"}, {1023.99, "512MB-1GB"}, {1024, "1-2GB"},    {2047.999, "1-2GB"},
        {2048, ">2GB"},     {1e6, ">2GB"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char name[64];
        history_done(&history);
        start(NULL);
        for (int k = 0; k < 3; k++) {
            struct run_digest run = digest_of(true, cases[i].mb);
            add(&run);
        }
        for (int k = 0; k < 9; k++) { /* in another bin */
            struct run_digest run = digest_of(false, cases[i].mb < 1024 ? 4000 : 300);
            add(&run);
        }
        find();
        snprintf(name, sizeof(name), "[memory_vs_failure] %s", cases[i].name);
        assert_int_equal(need(name)->runs, 3);
    }
}

static void test_durations(void **state _unused_)
{
    static const double seconds[] = {9.9, 10, 59, 60, 599, 600, 3599, 3600};
    static const char *const names[] = {"<10s",    "10-60s",   "10-60s",   "1-10min",
                                        "1-10min", "10-60min", "10-60min", ">1h"};

    for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
        char name[64];
        history_done(&history);
        start(NULL);
        for (int k = 0; k < 10; k++) {
            struct run_digest run = digest_of(k < 3, REAL_UNKNOWN);
            /* of some only the start and the end are known */
            run.job.started_at = 1000;
            run.job.ended_at = 1000 + (k < 3 ? seconds[i] : seconds[i] < 60 ? 100000 : 1);
            if (k % 2)
                run.job.profile.wall_seconds = run.job.ended_at - 1000;
            add(&run);
        }
        find();
        snprintf(name, sizeof(name), "[duration_vs_failure] %s", names[i]);
        const struct correlation *found = need(name);
        assert_int_equal(found->runs, 3);
        /* min(0.85, 0.5 + 0.2 · 0.3 + 0.4 · 0.7) */
        assert_near(found->confidence, 0.84, 1e-12);
    }
}

static void test_quarters_of_cpu(void **state _unused_)
{
    for (int i = 0; i < 40; i++) {
        struct run_digest run = digest_of(i >= 30, REAL_UNKNOWN);
        run.job.profile.cpu_seconds = 1 + i;
        add(&run);
    }
    find();
    const struct correlation *found = need("[cpu_vs_failure] quartile 4");
    assert_int_equal(found->runs, 10);
    assert_int_equal(found->failures, 10);
    assert_true(has_tag(&found->context_tags, "cpu_quartile:4"));
    assert_true(has_tag(&found->context_tags, "cpu_seconds:>=30.250"));
    /* min(0.95, 0.5 + 0.2 · 0.25 + 0.5 · 0.75) */
    assert_near(found->confidence, 0.925, 1e-12);
    assert_int_equal(need("[cpu_vs_failure] quartile 1")->runs, 10);
    assert_true(
        has_tag(&need("[cpu_vs_failure] quartile 2")->context_tags, "cpu_seconds:10.750-20.500"));
}

static void test_constant_cpu(void **state _unused_)
{
    for (int i = 0; i < 40; i++) {
        struct run_digest run = digest_of(i % 2, REAL_UNKNOWN);
        run.job.profile.cpu_seconds = 5;
        add(&run);
    }
    find();
    assert_int_equal(analysis.groups_tested, 0);
    assert_int_equal(analysis.verdict, VERDICT_NOTHING_FOUND);
}

static void test_anomalies_with_and_without(void **state _unused_)
{
    static const char *leak = "memory_leak";

    for (int i = 0; i < 40; i++) {
        struct run_digest run = digest_of(i < 10, REAL_UNKNOWN);
        if (i < 10)
            run.anomaly_types = (struct text_list){.items = &leak, .count = 1};
        add(&run);
    }
    find();
    const struct correlation *with = need("[anomaly_vs_failure] memory_leak");
    assert_int_equal(with->runs, 10);
    assert_int_equal(with->failures, 10);
    assert_true(has_tag(&with->context_tags, "anomaly:memory_leak"));
    const struct correlation *without = need("[anomaly_vs_failure] without memory_leak");
    assert_int_equal(without->runs, 30);
    assert_int_equal(without->failures, 0);
    assert_true(has_tag(&without->context_tags, "anomaly_present:no"));
    assert_near(with->p_value / without->p_value, 1, 1e-9);
}

static void add_calls(int count, bool has_failed, int source, struct tally *calls,
                      size_t call_count)
{
    for (int i = 0; i < count; i++) {
        struct run_digest run = digest_of(has_failed, REAL_UNKNOWN);
        run.job.profile.syscall_hotspots = (struct tally_list){.items = calls, .count = call_count};
        run.job.profile.syscall_source = source;
        add(&run);
    }
}

static void test_calls_that_dominate(void **state _unused_)
{
    /* Waiting calls are not found and do not hide others. */
    struct tally writing[] = {{"wait4", 90}, {"write", 4}, {"read", 6}, {"futex", 0}};
    struct tally reading[] = {{"write", 35}, {"read", 36}, {"openat", 29}};

    add_calls(8, true, SYSCALLS_BPF, writing, ARRAY_SIZE(writing));
    add_calls(12, false, SYSCALLS_BPF, reading, ARRAY_SIZE(reading));
    find();
    const struct correlation *found = need("[syscall_vs_failure] write (bpf)");
    assert_int_equal(found->runs, 8); /* 35 % is not more than 35 % */
    assert_int_equal(found->failures, 8);
    assert_true(has_tag(&found->context_tags, "syscall:write"));
    assert_true(has_tag(&found->context_tags, "syscall_source:bpf"));
    /* min(0.90, 0.5 + 0.2 · 0.4 + 0.4 · 0.6) */
    assert_near(found->confidence, 0.82, 1e-12);
    assert_null(get("[syscall_vs_failure] wait4 (bpf)"));
    assert_null(get("[syscall_vs_failure] futex (bpf)"));
    assert_null(get("[syscall_vs_failure] read (bpf)")); /* all of them: nothing to compare */
}

static void test_sources_are_separate(void **state _unused_)
{
    struct tally writing[] = {{"write", 100}}, reading[] = {{"read", 100}};

    add_calls(4, true, SYSCALLS_STRACE, writing, 1);
    add_calls(4, false, SYSCALLS_STRACE, reading, 1);
    add_calls(40, false, SYSCALLS_SAMPLED, writing, 1);
    add_calls(10, true, SYSCALLS_SAMPLED, reading, 1);
    for (int i = 0; i < 100; i++) { /* their calls are unknown */
        struct run_digest run = digest_of(false, REAL_UNKNOWN);
        add(&run);
    }
    find();
    const struct correlation *found = need("[syscall_vs_failure] write (strace)");
    assert_int_equal(found->runs, 4);
    assert_near(found->baseline_rate, 0.5, 1e-12); /* of the runs that strace has traced */
    assert_near(found->p_value, 2.0 / 70, 1e-12);
    assert_int_equal(need("[syscall_vs_failure] write (sampled)")->failures, 0);
}

static void test_unknown_figures_are_left_out(void **state _unused_)
{
    for (int i = 0; i < 60; i++) {
        /* the memory of only the first 40 is known, and none of the others has failed */
        struct run_digest run = digest_of(i < 20, i >= 40 ? REAL_UNKNOWN : i < 10 ? 3000 : 10);
        add(&run);
    }
    find();
    const struct correlation *found = need("[memory_vs_failure] >2GB");
    assert_near(found->baseline_rate, 0.5, 1e-12);
    assert_near(found->share, 0.25, 1e-12);
}

/* ---- findings ---- */

static void test_small_groups_are_not_tested(void **state _unused_)
{
    for (int i = 0; i < 20; i++) {
        struct run_digest run = digest_of(i < 2, i < 2 ? 3000 : 10);
        add(&run);
    }
    find();
    assert_null(get("[memory_vs_failure] >2GB"));
    struct run_digest run = digest_of(true, 3000);
    add(&run);
    find();
    assert_int_equal(need("[memory_vs_failure] >2GB")->runs, 3);
}

static void test_minimum_deviation(void **state _unused_)
{
    /* 3 of 10 against 4 of 20, which is 0.1 but for rounding; then 4 of 21. */
    for (int i = 0; i < 20; i++) {
        struct run_digest run = digest_of(i % 10 < (i < 10 ? 3 : 1), i < 10 ? 3000 : 10);
        add(&run);
    }
    find();
    assert_near(need("[memory_vs_failure] >2GB")->deviation, 0.1, 1e-12);
    /* not significant by Fisher's test: 0.58, by R */
    assert_near(need("[memory_vs_failure] >2GB")->p_value, 0.582043343653251, 1e-9);
    assert_int_equal(need("[memory_vs_failure] >2GB")->significant, TRUTH_NO);
    struct run_digest run = digest_of(true, 10);
    add(&run);
    find();
    assert_null(get("[memory_vs_failure] >2GB"));
    assert_int_equal(analysis.verdict, VERDICT_NOTHING_FOUND);
    assert_int_equal(analysis.groups_tested, 2); /* dropped, but tested */
}

static void test_confidence_is_limited(void **state _unused_)
{
    for (int i = 0; i < 100; i++) {
        struct run_digest run = digest_of(i < 5, i < 5 ? 3000 : 10);
        run.job.profile.wall_seconds = i < 5 ? 5 : 50;
        add(&run);
    }
    find();
    assert_near(need("[memory_vs_failure] >2GB")->confidence, 0.95, 1e-12);
    assert_near(need("[duration_vs_failure] <10s")->confidence, 0.85, 1e-12);
}

static void test_patterns_need_confidence(void **state _unused_)
{
    struct pattern_list patterns;

    plant();
    find();
    assert_int_equal(correlation_patterns(&analysis.correlations, &learn_constants_default, 1234,
                                          &arena, &patterns),
                     0);
    size_t kept = 0;
    for (size_t i = 0; i < analysis.correlations.count; i++)
        kept += analysis.correlations.items[i].confidence >= 0.6;
    assert_int_equal(patterns.count, kept);
    assert_true(kept > 0);
    assert_string_equal(patterns.items[0].pattern_type, "RESOURCE_CORRELATION");
    assert_string_equal(patterns.items[0].pattern_name, "[memory_vs_failure] 1-2GB");
    assert_near(patterns.items[0].first_seen, 1234, 0);
    assert_near(patterns.items[0].last_seen, 1234, 0);
    assert_int_equal(patterns.items[0].occurrences, 1);
}

/* ---- no findings ---- */

static void assert_verdict(int verdict, const char *message)
{
    record_init(&analysis_record, &analysis);
    find();
    assert_int_equal(analysis.verdict, verdict);
    assert_string_equal(analysis.message, message);
    assert_int_equal(analysis.correlations.count, 0);
}

static void test_verdicts_without_findings(void **state _unused_)
{
    struct run_digest run = digest_of(false, 10);

    assert_verdict(VERDICT_TOO_FEW_RUNS, "too few runs: 0 with a known outcome, 5 are needed"
                                         " (profiler.correlation.min_sample_size)");
    run.job.outcome = OUTCOME_UNKNOWN;
    add(&run);
    run.job.outcome = OUTCOME_RUNNING;
    add(&run);
    assert_verdict(VERDICT_NO_OUTCOMES, "1 run ended, none with a known outcome; 5 are needed");
    assert_int_equal(analysis.runs_without_outcome, 1);
    run.job.outcome = OUTCOME_SUCCESS;
    for (int i = 0; i < 4; i++)
        add(&run);
    assert_verdict(VERDICT_TOO_FEW_RUNS, "too few runs: 4 with a known outcome, 5 are needed"
                                         " (profiler.correlation.min_sample_size)");
    add(&run);
    assert_verdict(VERDICT_ALL_ALIKE, "none of 5 runs failed: there is nothing to compare");
    run.job.outcome = OUTCOME_FAILURE;
    add(&run);
    run.job.profile.peak_rss_mb = 600;
    assert_verdict(VERDICT_NOTHING_FOUND, "too few runs in any group to compare");
}

static void test_all_failed(void **state _unused_)
{
    for (int i = 0; i < 9; i++) {
        struct run_digest run = digest_of(true, 10 * i);
        add(&run);
    }
    assert_verdict(VERDICT_ALL_ALIKE, "all of 9 runs failed: there is nothing to compare");
}

static void test_limit_of_names(void **state _unused_)
{
    for (int i = 0; i < 3000; i++) {
        char name[300];
        const char *items = name;
        memset(name, 'x', sizeof(name));
        snprintf(name + 280, sizeof(name) - 280, "%d", i);
        struct run_digest run = digest_of(i % 2, REAL_UNKNOWN);
        run.anomaly_types = (struct text_list){.items = &items, .count = 1};
        struct tally call = {name, 100};
        run.job.profile.syscall_hotspots = (struct tally_list){.items = &call, .count = 1};
        add(&run);
    }
    assert_int_equal(history.calls.count, CALL_NAMES_MAX);
    assert_int_equal(history.anomalies.count, ANOMALY_NAMES_MAX);
    find();
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, start, finish)
    const struct CMUnitTest tests[] = {
        TEST(test_each_type_by_itself),
        TEST(test_all_types_together),
        TEST(test_limit_of_types),
        TEST(test_verdicts_of_types),
        TEST(test_a_planted_cause_is_found),
        TEST(test_shuffled_outcomes_are_not_significant),
        TEST(test_bins_at_their_bounds),
        TEST(test_durations),
        TEST(test_quarters_of_cpu),
        TEST(test_constant_cpu),
        TEST(test_anomalies_with_and_without),
        TEST(test_calls_that_dominate),
        TEST(test_sources_are_separate),
        TEST(test_unknown_figures_are_left_out),
        TEST(test_small_groups_are_not_tested),
        TEST(test_minimum_deviation),
        TEST(test_confidence_is_limited),
        TEST(test_patterns_need_confidence),
        TEST(test_verdicts_without_findings),
        TEST(test_all_failed),
        TEST(test_limit_of_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
