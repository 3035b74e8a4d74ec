#include "unit.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "learn/estimate.h"
#include "model/cause.h"

#define RUNS_MAX 32

static struct job runs[RUNS_MAX];
static struct job_list list = {.items = runs};

static struct job *add_run(int outcome, double memory_mb)
{
    struct job *run = &runs[list.count++];

    record_init(&job_record, run);
    run->run_id = "run";
    run->job_id = "job";
    run->outcome = outcome;
    run->started_at = 1000;
    run->ended_at = 1000 + 10 * (double)list.count;
    run->profile.peak_unique_mb = memory_mb;
    run->profile.cpu_seconds = 2 * (double)list.count;
    run->profile.wall_seconds = 4 * (double)list.count;
    return run;
}

static int start(void **state _unused_)
{
    list.count = 0;
    return 0;
}

static void test_no_runs(void **state _unused_)
{
    struct resource_estimate estimate = {.confidence = 42};

    assert_int_equal(estimate_make(&list, &estimate), -ENODATA);
    add_run(OUTCOME_RUNNING, 100);
    add_run(OUTCOME_NONE, 100);
    add_run(OUTCOME_UNKNOWN, 100)->cause = "lost";
    assert_int_equal(estimate_make(&list, &estimate), -ENODATA);
    assert_true(estimate.confidence == 42);
}

static void test_percentiles(void **state _unused_)
{
    struct resource_estimate estimate;

    for (int i = 5; i >= 1; i--)
        add_run(i == 2 ? OUTCOME_FAILURE : OUTCOME_SUCCESS, 100 * i);
    add_run(OUTCOME_RUNNING, 9999);
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_int_equal(estimate.sample_size, 5);
    /* 100 … 500: (n − 1)·0.95 = 3.8, which is four fifths of the way from the fourth to the fifth
     * value. */
    assert_close(estimate.peak_memory_mb_p50, 300, 1e-9);
    assert_close(estimate.peak_memory_mb_p95, 480, 1e-9);
    assert_close(estimate.estimated_peak_memory_mb, 480, 1e-9);
    assert_close(estimate.cpu_seconds_p50, 6, 1e-9);
    assert_close(estimate.cpu_seconds_p95, 9.6, 1e-9);
    assert_close(estimate.estimated_cpu_seconds, 6, 1e-9);
    assert_close(estimate.duration_seconds_p50, 12, 1e-9);
    assert_close(estimate.duration_seconds_p95, 19.2, 1e-9);
    assert_close(estimate.estimated_duration_seconds, 12, 1e-9);
    assert_close(estimate.failure_rate, 0.2, 1e-9);
    /* 5/10 · 1/(1 + 200/300) */
    assert_close(estimate.confidence, 0.3, 1e-9);
}

static void test_confidence_rises_with_similar_runs(void **state _unused_)
{
    struct resource_estimate estimate;

    for (int i = 0; i < 20; i++) {
        add_run(OUTCOME_SUCCESS, 250);
        assert_int_equal(estimate_make(&list, &estimate), 0);
        assert_close(estimate.confidence, (double)list.count / ((double)list.count + 5), 1e-9);
    }
}

static void test_runs_without_memory(void **state _unused_)
{
    struct resource_estimate estimate;

    for (int i = 0; i < 4; i++)
        add_run(OUTCOME_SUCCESS, i == 3 ? 400 : 0);
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_true(estimate.confidence == 0); /* the spread is infinite */
    list.count = 3;
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_close(estimate.confidence, 3.0 / 8, 1e-9);
}

static void test_memory_at_least_largest_process(void **state _unused_)
{
    struct resource_estimate estimate;

    add_run(OUTCOME_SUCCESS, 10)->profile.peak_rss_mb = 150;
    add_run(OUTCOME_SUCCESS, REAL_UNKNOWN)->profile.peak_rss_mb = 150;
    add_run(OUTCOME_SUCCESS, 150)->profile.peak_rss_mb = 20;
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_close(estimate.peak_memory_mb_p50, 150, 1e-9);
    assert_close(estimate.peak_memory_mb_p95, 150, 1e-9);
}

static void test_unknown_figures_are_left_out(void **state _unused_)
{
    struct resource_estimate estimate;

    add_run(OUTCOME_SUCCESS, REAL_UNKNOWN)->profile.cpu_seconds = REAL_UNKNOWN;
    runs[0].profile.wall_seconds = REAL_UNKNOWN;
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_int_equal(estimate.sample_size, 1);
    assert_true(estimate.confidence == 0);
    assert_false(real_is_known(estimate.peak_memory_mb_p95));
    assert_false(real_is_known(estimate.estimated_cpu_seconds));
    assert_close(estimate.estimated_duration_seconds, 10, 1e-9); /* from its start to its end */
}

static void test_run_killed_for_memory_is_a_lower_bound(void **state _unused_)
{
    struct resource_estimate estimate;

    for (int i = 0; i < 3; i++)
        add_run(OUTCOME_SUCCESS, 200);
    add_run(OUTCOME_FAILURE, 120)->profile.oom_count = 1; /* below the others: no effect */
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_close(estimate.peak_memory_mb_p50, 200, 1e-9);
    assert_close(estimate.peak_memory_mb_p95, 200, 1e-9);
    assert_int_equal(estimate.sample_size, 3);
    assert_close(estimate.failure_rate, 0.25, 1e-9);
    assert_close(estimate.confidence, 3.0 / 8, 1e-9);

    struct job *killed = add_run(OUTCOME_FAILURE, 900);
    killed->profile.oom_count = 1;
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_close(estimate.peak_memory_mb_p50, 200, 1e-9);
    assert_close(estimate.peak_memory_mb_p95, 900, 1e-9);
    assert_close(estimate.estimated_peak_memory_mb, 900, 1e-9);
    assert_close(estimate.cpu_seconds_p50, 4,
                 1e-9); /* the killed run ended early, so its CPU time is not used either */
    assert_close(estimate.cpu_seconds_p95, 10, 1e-9);
    killed->outcome = OUTCOME_SUCCESS; /* it was not the job that was killed */
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_int_equal(estimate.sample_size, 4);
}

static void test_only_runs_killed_for_memory(void **state _unused_)
{
    struct resource_estimate estimate;

    add_run(OUTCOME_FAILURE, 900)->profile.oom_count = 1;
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_false(real_is_known(estimate.peak_memory_mb_p50));
    assert_close(estimate.peak_memory_mb_p95, 900, 1e-9);
    assert_true(estimate.confidence == 0);
    assert_int_equal(estimate.sample_size, 0);
}

static void test_cause_names_memory(void **state _unused_)
{
    static const struct {
        const char *cause;
        int64_t data_points;
    } cases[] = {
        {"killed by SIGKILL (OOM)", 0},
        {"Out of memory: killed", 0},
        {"killed for memory", 0},
        {"no room left", 1},
        {"exit status 1", 1},
        {"oomph", 1},
        {"the oom-killer came round", 0},
        {NULL, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct resource_estimate estimate;
        list.count = 0;
        add_run(OUTCOME_FAILURE, 900)->cause = cases[i].cause;
        assert_int_equal(estimate_make(&list, &estimate), 0);
        assert_int_equal(estimate.sample_size, cases[i].data_points);
    }
}

/* A cause derived by sonde names programs, and one of them may be called "oom". */
static void test_program_name_is_not_a_cause(void **state _unused_)
{
    struct process_event chain[2];
    char cause[CAUSE_MAX_BYTES + 1];

    for (int is_oom = 0; is_oom < 2; is_oom++) {
        struct resource_estimate estimate;
        for (size_t i = 0; i < 2; i++) {
            record_init(&process_event_record, &chain[i]);
            chain[i].pid = 10 - (int64_t)i;
            chain[i].event_type = EVENT_EXIT;
            chain[i].exit_code = 1;
        }
        chain[0].command = "oom --test";
        if (is_oom)
            chain[0].event_type = EVENT_OOM;
        list.count = 0;
        struct job *run = add_run(OUTCOME_FAILURE, 900);
        run->chain = (struct process_event_list){chain, 2};
        cause_format(&run->chain, &(struct process_event_list){0}, cause);
        run->cause = cause;
        assert_int_equal(estimate_make(&list, &estimate), 0);
        assert_int_equal(estimate.sample_size, !is_oom);
    }
}

static void test_unknown_outcome_is_not_a_failure(void **state _unused_)
{
    struct resource_estimate estimate;

    add_run(OUTCOME_UNKNOWN, 100);
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_int_equal(estimate.sample_size, 1);
    assert_false(real_is_known(estimate.failure_rate));
    add_run(OUTCOME_FAILURE, 100);
    add_run(OUTCOME_SUCCESS, 100);
    assert_int_equal(estimate_make(&list, &estimate), 0);
    assert_close(estimate.failure_rate, 0.5, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_no_runs, start),
        cmocka_unit_test_setup(test_percentiles, start),
        cmocka_unit_test_setup(test_confidence_rises_with_similar_runs, start),
        cmocka_unit_test_setup(test_runs_without_memory, start),
        cmocka_unit_test_setup(test_memory_at_least_largest_process, start),
        cmocka_unit_test_setup(test_unknown_figures_are_left_out, start),
        cmocka_unit_test_setup(test_run_killed_for_memory_is_a_lower_bound, start),
        cmocka_unit_test_setup(test_only_runs_killed_for_memory, start),
        cmocka_unit_test_setup(test_cause_names_memory, start),
        cmocka_unit_test_setup(test_program_name_is_not_a_cause, start),
        cmocka_unit_test_setup(test_unknown_outcome_is_not_a_failure, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
