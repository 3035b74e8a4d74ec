/* The text output of analyses, estimates and comparisons of runs. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "report/analysis-text.h"
#include "report/estimate-text.h"
#include "report/run-diff.h"

#define NOW 1784037802.0 /* 2026-07-14 14:03:22 UTC */
#define DAY 86400.0

static const struct report_style plain = {.columns = SIZE_MAX};

static void assert_text(const struct text *out, const char *wanted)
{
    if (strcmp(text_string(out), wanted) != 0)
        fail_msg("found:\n%s\nwanted:\n%s", text_string(out), wanted);
}

/* ---- analyses ---- */

static struct analysis make_analysis(void)
{
    struct analysis analysis;

    record_init(&analysis_record, &analysis);
    analysis.as_of = NOW;
    analysis.since = NOW - 7 * DAY;
    analysis.runs = 1200;
    analysis.failures = 300;
    analysis.failure_rate = 0.25;
    analysis.runs_without_outcome = 0;
    analysis.runs_left_out = 0;
    analysis.groups_tested = 14;
    analysis.verdict = VERDICT_FOUND;
    analysis.message = "2 of 14 groups of runs deviate";
    return analysis;
}

static struct correlation correlations[] = {
    {.figure = "memory",
     .group = "1-2GB",
     .runs = 50,
     .failure_rate = 0.8,
     .rate_low = 0.6696,
     .rate_high = 0.8876,
     .baseline_rate = 0.25,
     .deviation = 0.55,
     .confidence = 0.8125,
     .q_value = 3e-19,
     .significant = TRUTH_YES},
    {.figure = "syscall",
     .group = "evil\x1b[31m (strace)",
     .runs = 5,
     .failure_rate = 0,
     .rate_low = 0,
     .rate_high = 0.43,
     .baseline_rate = 0.25,
     .deviation = -0.25,
     .confidence = 0.6,
     .q_value = 0.4321,
     .significant = TRUTH_NO},
};

static struct pattern patterns[] = {
    {.pattern_type = "RESOURCE_ANOMALY",
     .pattern_name = "[memory_leak] make",
     .description = "it grew\nand grew",
     .suggested_action = "look for what it keeps",
     .confidence = 0.6,
     .first_seen = NOW - 2 * DAY,
     .last_seen = NOW - 60,
     .occurrences = 1200},
    {.pattern_type = "RESOURCE_CORRELATION",
     .pattern_name = "[memory_vs_failure] 1-2GB",
     .confidence = 0.8125,
     .first_seen = NOW,
     .last_seen = NOW,
     .occurrences = 1},
};

static void test_analysis(void **state _unused_)
{
    struct analysis analysis = make_analysis();
    _cleanup_text_ struct text out = {0};

    analysis.correlations = (struct correlation_list){correlations, ARRAY_SIZE(correlations)};
    analysis.patterns = (struct pattern_list){patterns, ARRAY_SIZE(patterns)};
    assert_int_equal(analysis_format(&analysis, &plain, &out), 0);
    assert_text(
        &out,
        "1,200 runs ended with a known outcome in the last 7 days, 300 failed (25 %)\n"
        "\n"
        "resource use that correlates with failure or success (2 of 14 groups of runs differ)\n"
        "  FIGURE   GROUP                  RUNS  FAIL  95 % RANGE  ALL RUNS        Q  CONFIDENCE  "
        "VERDICT\n"
        "  memory   1-2GB                    50  80 %     67-89 %      25 %  < 0.001        0.81  "
        "significant\n"
        "  syscall  evil\\x1b[31m (strace)     5   0 %      0-43 %      25 %    0.432        0.60  "
        "may be chance\n"
        "\n"
        "patterns (2)\n"
        "  [memory_vs_failure] 1-2GB, confidence 0.81, at 14:03:22\n"
        "  [memory_leak] make, confidence 0.60, 1,200 times, the last at 14:02:22\n"
        "      it grew\\nand grew\n"
        "      → look for what it keeps\n");
}

static void test_empty_analysis(void **state _unused_)
{
    struct analysis analysis = make_analysis();
    _cleanup_text_ struct text out = {0};

    analysis.verdict = VERDICT_TOO_FEW_RUNS;
    analysis.message = "too few runs";
    analysis.runs = analysis.failures = 0;
    analysis.runs_without_outcome = 3;
    assert_int_equal(analysis_format(&analysis, &plain, &out), 0);
    assert_text(&out,
                "0 runs ended with a known outcome in the last 7 days; the outcome of 3 more is "
                "unknown\ntoo few runs\n");
    analysis.runs = 1;
    text_reset(&out);
    assert_int_equal(analysis_format(&analysis, &plain, &out), 0);
    assert_non_null(strstr(text_string(&out), "1 run ended with a known outcome in the last"));
}

static void test_many_patterns(void **state _unused_)
{
    struct analysis analysis = make_analysis();
    struct pattern many[25];
    _cleanup_text_ struct text out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(many); i++)
        many[i] = patterns[i == 24];
    analysis.patterns = (struct pattern_list){many, ARRAY_SIZE(many)};
    assert_int_equal(analysis_format(&analysis, &plain, &out), 0);
    assert_non_null(strstr(text_string(&out), "\npatterns (20 of 25; --json prints all)\n"
                                              "  [memory_vs_failure] 1-2GB"));
    assert_ptr_equal(many[24].pattern_name, patterns[1].pattern_name); /* it is left as it was */
}

/* ---- estimates ---- */

static void test_estimate(void **state _unused_)
{
    struct resource_estimate estimate;
    _cleanup_text_ struct text out = {0};

    record_init(&resource_estimate_record, &estimate);
    estimate.sample_size = 12;
    estimate.peak_memory_mb_p50 = 310.2;
    estimate.peak_memory_mb_p95 = 1536;
    estimate.cpu_seconds_p50 = 1.79;
    estimate.duration_seconds_p50 = 0.25;
    estimate.duration_seconds_p95 = 300;
    estimate.confidence = 0.62;
    estimate.failure_rate = 1 / 6.0;
    assert_int_equal(estimate_format("make\x1b test", &estimate, true, &plain, &out), 0);
    assert_text(&out, "make\\x1b test: estimated from 12 finished runs; 17 % of all runs failed\n"
                      "                    USUAL (P50)  AT MOST (P95)\n"
                      "  memory, together     310.2 MB        1.50 GB\n"
                      "  CPU                    1.79 s              -\n"
                      "  wall                   250 ms       5 m 00 s\n"
                      "  confidence 0.62, sufficient for `sonde admit`\n");
    text_reset(&out);
    record_init(&resource_estimate_record, &estimate);
    estimate.sample_size = 0;
    estimate.confidence = 0;
    assert_int_equal(estimate_format("make", &estimate, false, &plain, &out), 0);
    assert_non_null(strstr(text_string(&out),
                           "estimated from 0 finished runs, because all runs were killed by "
                           "the kernel for memory (OOM)\n"));
    assert_non_null(strstr(text_string(&out), "not sufficient for"));
}

static void test_calibration(void **state _unused_)
{
    struct calibration items[] = {
        {.job_type = "make",
         .memory = {20, 19, 0.95, 0.76, 0.99},
         .cpu = {20, 5, 0.25, 0.11, 0.47},
         .duration = {1200, 1200, 1, 0.99, 1}},
    };
    const struct report_style colours = {.columns = SIZE_MAX, .with_colour = true};
    _cleanup_text_ struct text out = {0};

    const struct calibration_list list = {items, ARRAY_SIZE(items)};
    assert_int_equal(calibration_format(&list, &plain, &out), 0);
    assert_text(
        &out,
        "runs that stayed within the p95 estimated from the runs before them (goal: "
        "95 %)\n"
        "  TYPE          MEMORY  MEMORY, IF CONFIDENT            CPU                   WALL\n"
        "  make  19 of 20, 95 %                     -  5 of 20, 25 %  1,200 of 1,200, 100 %\n");
    text_reset(&out);
    assert_int_equal(calibration_format(&list, &colours, &out), 0);
    assert_non_null(strstr(text_string(&out), "\033[33m5 of 20, 25 %")); /* certainly too few */
}

/* ---- two runs ---- */

static struct job_report make_report(const char *job_id, int outcome, double memory_mb)
{
    struct job_report report;

    record_init(&job_report_record, &report);
    report.as_of = NOW;
    report.job.run_id = job_id;
    report.job.job_id = job_id;
    report.job.outcome = outcome;
    report.job.started_at = NOW - 100;
    report.job.command = "make";
    report.job.profile.peak_rss_mb = memory_mb;
    report.job.profile.exactness.peak_rss_mb = EXACT;
    report.job.profile.kill_count = 0;
    return report;
}

static void test_diff(void **state _unused_)
{
    struct job_report left = make_report("one", OUTCOME_SUCCESS, 100);
    struct job_report right = make_report("two", OUTCOME_FAILURE, 150);
    struct tally left_calls[] = {{"read", 60}, {"write", 40}};
    struct tally right_calls[] = {{"write", 90}, {"openat", 10}};
    struct sheet sheets[3];
    struct anomaly anomalies[2];
    struct arena arena = {0};
    struct run_diff diff;
    _cleanup_text_ struct text out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(sheets); i++) {
        record_init(&sheet_record, &sheets[i]);
        sheets[i].sheet_num = (int64_t[]){3, 1, 3}[i];
        sheets[i].outcome = OUTCOME_SUCCESS;
        sheets[i].started_at = 10;
        sheets[i].ended_at = 20 + 10 * (double)i;
    }
    for (size_t i = 0; i < ARRAY_SIZE(anomalies); i++) {
        record_init(&anomaly_record, &anomalies[i]);
        anomalies[i].anomaly_type = "zombie";
    }
    left.sheets = (struct sheet_list){sheets, 2};
    right.sheets = (struct sheet_list){sheets + 2, 1};
    right.anomalies = (struct anomaly_list){anomalies, 2};
    left.job.profile.syscall_hotspots = (struct tally_list){left_calls, 2};
    right.job.profile.syscall_hotspots = (struct tally_list){right_calls, 2};
    right.job.profile.peak_total_mb = 200;
    right.job.signal_num = 9;
    right.job.cause = "killed";
    right.job.profile.kill_count = 1;

    assert_int_equal(run_diff_make(&left, &right, &arena, &diff), 0);
    assert_int_equal(diff.figures.count, 3); /* memory, together, killed */
    assert_string_equal(diff.figures.items[0].figure, "peak_rss_mb");
    assert_true(diff.figures.items[0].difference == 50 && diff.figures.items[0].ratio == 1.5);
    assert_false(real_is_known(diff.figures.items[1].difference));
    assert_false(real_is_known(diff.figures.items[2].ratio)); /* of nothing */
    assert_int_equal(diff.sheets.count, 2);
    assert_int_equal(diff.sheets.items[0].sheet_num, 1);
    assert_int_equal(diff.sheets.items[0].right_outcome, 0);
    assert_true(diff.sheets.items[1].left_wall_seconds == 10);
    assert_true(diff.sheets.items[1].right_wall_seconds == 30);
    assert_int_equal(diff.syscalls.count, 3);
    assert_string_equal(diff.syscalls.items[0].name, "read"); /* 60 less */
    assert_string_equal(diff.syscalls.items[1].name, "write");
    assert_int_equal(diff.right_anomalies.count, 1); /* each type once */

    assert_int_equal(run_diff_format(&diff, &plain, &out), 0);
    assert_text(&out,
                "  left       one: success, 2026-07-14 14:01:42 +0000, one\n"
                "  right      two: failure, SIGKILL, 2026-07-14 14:01:42 +0000, two\n"
                "  command    make\n"
                "  cause      -\n"
                "             killed\n"
                "  anomalies  none; zombie\n"
                "\n"
                "                       LEFT       RIGHT  DIFFERENCE\n"
                "  largest process  100.0 MB    150.0 MB       +50 %\n"
                "  all processes           -  ≥ 200.0 MB           -\n"
                "  killed                ≥ 0         ≥ 1           -\n"
                "\n"
                "steps\n"
                "  STEP  LEFT     RIGHT    WALL LEFT  WALL RIGHT  LARGEST LEFT  LARGEST RIGHT\n"
                "     1  success  -          20.00 s           -             -              -\n"
                "     3  success  success    10.00 s     30.00 s             -              -\n"
                "\n"
                "system calls (share of the time in calls that do not wait)\n"
                "  SYSCALL    LEFT   RIGHT\n"
                "  read     60.0 %   0.0 %\n"
                "  write    40.0 %  90.0 %\n"
                "  openat    0.0 %  10.0 %\n");
    arena_done(&arena);
}

static void test_diff_without_calls_of_one_run(void **state _unused_)
{
    struct job_report left = make_report("one", OUTCOME_SUCCESS, 100);
    struct job_report right = make_report("two", OUTCOME_SUCCESS, 100);
    struct tally calls[] = {{"read", 60}};
    struct arena arena = {0};
    struct run_diff diff;
    _cleanup_text_ struct text out = {0};

    left.job.profile.syscall_hotspots = (struct tally_list){calls, 1};
    assert_int_equal(run_diff_make(&left, &right, &arena, &diff), 0);
    assert_int_equal(diff.syscalls.count, 0);
    assert_int_equal(run_diff_format(&diff, &plain, &out), 0);
    assert_non_null(
        strstr(text_string(&out), "  largest process  100.0 MB  100.0 MB        same\n"));
    assert_null(strstr(text_string(&out), "system calls"));
    arena_done(&arena);
}

/* A difference that the shown figures do not have is not shown. */
static void test_diff_of_equal_texts(void **state _unused_)
{
    struct job_report left = make_report("one", OUTCOME_SUCCESS, 100);
    struct job_report right = make_report("two", OUTCOME_SUCCESS, 100.01);
    struct arena arena = {0};
    struct run_diff diff;
    _cleanup_text_ struct text out = {0};

    left.job.profile.write_bytes = 4096; /* both are 0.0 MB */
    right.job.profile.write_bytes = 0;
    left.job.profile.read_bytes = 3 << 20;
    right.job.profile.read_bytes = 6 << 20;
    left.job.profile.max_cpu_pct = 42.5;
    right.job.profile.max_cpu_pct = 101.4;
    assert_int_equal(run_diff_make(&left, &right, &arena, &diff), 0);
    assert_int_equal(run_diff_format(&diff, &plain, &out), 0);
    assert_non_null(strstr(text_string(&out),
                           "                         LEFT       RIGHT  DIFFERENCE\n"
                           "  largest process    100.0 MB    100.0 MB        same\n"
                           "  peak CPU         0.42 cores  1.01 cores      +139 %\n"
                           "  read               ≥ 3.0 MB    ≥ 6.0 MB      +100 %\n"));
    assert_null(strstr(text_string(&out), "written"));
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_analysis),
        cmocka_unit_test(test_empty_analysis),
        cmocka_unit_test(test_many_patterns),
        cmocka_unit_test(test_estimate),
        cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_diff),
        cmocka_unit_test(test_diff_of_equal_texts),
        cmocka_unit_test(test_diff_without_calls_of_one_run),
    };

    setenv("TZ", "UTC", 1);
    tzset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
