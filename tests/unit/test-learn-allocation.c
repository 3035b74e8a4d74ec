/* Each allocation of learn/ and its reports fails once, and then with all that follow: an error,
 * no crash, no leak, and the next call works. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "failing-allocator.h"
#include "learn/calibration.h"
#include "learn/correlation.h"
#include "report/analysis-text.h"
#include "report/estimate-text.h"
#include "report/run-diff.h"

static const struct report_style plain = {.columns = SIZE_MAX};

#define RUNS 40

/* ---- what may fail ---- */

static struct run_digest make_run(int number)
{
    static struct tally calls[] = {{"read", 60}, {"wait4", 30}, {"write", 10}};
    static const char *types[] = {"memory_leak", "zombie"};
    struct run_digest run = {0};

    record_init(&job_record, &run.job);
    run.job.job_type = number % 2 ? "odd" : "even";
    run.job.outcome = number % 3 ? OUTCOME_SUCCESS : OUTCOME_FAILURE;
    run.job.started_at = 10 * number;
    run.job.ended_at = 10 * number + 5;
    run.job.profile.wall_seconds = number % 3 ? 5 : 50;
    run.job.profile.peak_rss_mb = number % 3 ? 100 : 3000;
    run.job.profile.cpu_seconds = number;
    run.job.profile.syscall_hotspots = (struct tally_list){calls, number % 3 ? 3 : 2};
    if (number % 3 == 0)
        run.anomaly_types = (struct text_list){types, 2};
    return run;
}

static int analyze(void)
{
    _cleanup_history_ struct history history;
    _cleanup_text_ struct text out = {0};
    struct arena arena = {0};
    struct analysis analysis;
    struct pattern_list patterns;
    int r = 0;

    history_init(&history, &learn_constants_default, true);
    record_init(&analysis_record, &analysis);
    for (int i = 0; i < RUNS && r == 0; i++) {
        struct run_digest run = make_run(i);
        r = history_add(&history, &run);
    }
    if (r == 0)
        r = correlation_find(&history, 5, &arena, &analysis);
    if (r == 0)
        r = correlation_patterns(&analysis.correlations, &learn_constants_default, 1, &arena,
                                 &patterns);
    if (r == 0) {
        analysis.as_of = analysis.since = 0;
        analysis.patterns = patterns;
        r = analysis_format(&analysis, &plain, &out);
    }
    arena_done(&arena);
    return r;
}

static bool is_sure(const struct resource_estimate *estimate _unused_)
{
    return true;
}

static int calibrate(void)
{
    _cleanup_calibrator_ struct calibrator calibrator;
    _cleanup_text_ struct text out = {0};
    struct calibration_list list;
    struct arena arena = {0};
    int r = 0;

    calibrator_init(&calibrator, &learn_constants_default, is_sure);
    for (int i = 0; i < RUNS && r == 0; i++) {
        struct run_digest run = make_run(i);
        r = calibrator_add(&calibrator, &run);
    }
    if (r == 0)
        r = calibrator_make(&calibrator, &arena, &list);
    if (r == 0)
        r = calibration_format(&list, &plain, &out);
    arena_done(&arena);
    return r;
}

static int compare(void)
{
    static struct job jobs[8];
    _cleanup_text_ struct text out = {0};
    struct arena arena = {0};
    struct earlier_runs earlier;
    struct job_report report;
    struct run_diff diff;

    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
        jobs[i] = make_run(1).job;
        jobs[i].run_id = i ? "others" : "own";
    }
    record_init(&job_report_record, &report);
    report.job = jobs[0];
    report.job.job_id = "job";
    int r =
        earlier_runs_make(&(struct job_list){jobs, ARRAY_SIZE(jobs)}, &jobs[0], &arena, &earlier);
    if (r == 0) {
        earlier_runs_format(&earlier, &jobs[0], &plain, &out);
        r = text_error(&out);
    }
    if (r == 0)
        r = run_diff_make(&report, &report, &arena, &diff);
    if (r == 0)
        r = run_diff_format(&diff, &plain, &out);
    arena_done(&arena);
    return r;
}

/* ---- making it fail ---- */

static void check(int (*step)(void))
{
    assert_int_equal(step(), 0);
    fail_each_allocation(step, false, 5);
    fail_each_allocation(step, true, 5);
    assert_int_equal(step(), 0);
}

static void test_analysis(void **state _unused_)
{
    check(analyze);
}

static void test_calibration(void **state _unused_)
{
    check(calibrate);
}

static void test_comparison(void **state _unused_)
{
    check(compare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_analysis),
        cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
