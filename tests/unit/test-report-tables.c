/* Tables of jobs and events, lines that fit the terminal, and the summary at a run's end. */
#include "report-world.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "report/event-table.h"
#include "report/job-table.h"
#include "report/run-figures.h"
#include "report/short-summary.h"
#include "report/table.h"

#define MS 0.001

/* ---- tables ---- */

/* Columns of the longest line; all characters here are one wide. */
static size_t widest_line(const struct text *out)
{
    size_t widest = 0, columns = 0;

    for (size_t i = 0; i < out->length; i++) {
        if (out->bytes[i] == '\n') {
            widest = MAX(widest, columns);
            columns = 0;
        } else if ((out->bytes[i] & 0xC0) != 0x80) {
            columns++;
        }
    }
    return widest;
}

static void test_memory_fits_the_terminal(void **state _unused_)
{
    struct job_profile profile = make_full_report().job.profile;
    _cleanup_text_ struct text out = {0};

    profile.peak_rss_mb = profile.peak_total_mb = profile.peak_unique_mb = 1023.9;
    profile.peak_unique_min_mb = 1020.1;
    profile.exactness.peak_rss_mb = LOWER_BOUND;
    profile.exactness.peak_total_mb = SAMPLED;
    style_label("memory", &out);
    run_figures_format_memory(&profile, &out);
    text_append_char(&out, '\n');
    assert_non_null(
        strstr(text_string(&out),
               "  memory     ≥ 1023.9 MB largest process\n"
               "             ~ 1023.9 MB all processes, ≥ 1020.1 to 1023.9 MB together\n"));
    assert_in_range(widest_line(&out), 60, 80);
}

static void test_jobs_fit_the_terminal(void **state _unused_)
{
    struct job jobs[3] = {make_full_report().job, make_full_report().job, make_full_report().job};
    const struct job_list list = {jobs, ARRAY_SIZE(jobs)};
    _cleanup_text_ struct text out = {0};

    jobs[0].outcome = OUTCOME_FAILURE;
    jobs[0].signal_num = 15;
    jobs[1].outcome = OUTCOME_FAILURE;
    jobs[1].exit_code = 2;
    jobs[1].started_at = START - 86400;
    jobs[2].outcome = OUTCOME_RUNNING;
    jobs[2].job_id = "a-name-that-is-longer-than-there-is-room-for";
    jobs[2].profile.cpu_seconds = REAL_UNKNOWN;
    job_table_format(&list, START, 0, &(struct report_style){.columns = 80}, &out);
    assert_string_equal(
        out.bytes,
        "JOB                OUTCOME                 STARTED     WALL        CPU   LARGEST\n"
        "make-7f3a          failure (SIGTERM)      14:03:22  12.30 s  ≥ 23.40 s  812.4 MB\n"
        "make-7f3a          failure (2)        Jul 13 14:03  12.30 s  ≥ 23.40 s  812.4 MB\n"
        "a-name-that-is-l…  running                14:03:22  12.30 s          -  812.4 MB\n");
    text_reset(&out);
    jobs[1].uid = jobs[0].uid + 1; /* the user is shown if the users differ */
    job_table_format(&list, START, 0, &(struct report_style){.columns = 100}, &out);
    assert_non_null(strstr(out.bytes, "UID  OUTCOME"));
    for (size_t columns = 45; columns < 180; columns++) {
        text_reset(&out);
        job_table_format(&list, START, 2, &(struct report_style){.columns = columns}, &out);
        assert_in_range(widest_line(&out), 1, columns);
    }
}

static void test_table(void **state _unused_)
{
    static const struct table_column columns[] = {
        {.title = "NAME", .cut_to = 6},
        {.title = "N", .is_figure = true},
        {.title = "NEVER", .is_optional = true},
        {.title = "NOTE", .drop_rank = 1},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = 1);
    _cleanup_text_ struct text out = {0};

    table_format(&table, &plain, &out);
    assert_string_equal(text_string(&out), " NAME  N  NOTE\n");

    table_add(&table, "日本語の名前");
    table_printf(&table, "%d", 100);
    table_add(&table, NULL);
    table_add_tinted(&table, TINT_BAD, "bad");
    table_add(&table, "x");
    table_add(&table, "");
    table_add(&table, "");
    table_add(&table, "longer than it");
    text_reset(&out);
    table_format(&table, &coloured, &out);
    assert_string_equal(out.bytes,
                        " \033[1mNAME\033[0m            \033[1mN\033[0m  \033[1mNOTE\033[0m\n"
                        " 日本語の名前  100  \033[31mbad\033[0m\n"
                        " x               -  longer than it\n");
    text_reset(&out);
    table_format(&table, &(struct report_style){.columns = 16}, &out);
    assert_string_equal(out.bytes, " NAME          N\n"
                                   " 日本語の…   100\n"
                                   " x             -\n");
    text_reset(&out);
    table_format(&table, &(struct report_style){.columns = 1}, &out); /* as far as it may be cut */
    assert_string_equal(out.bytes, " NAME      N\n"
                                   " 日本…   100\n"
                                   " x         -\n");
}

static void test_events(void **state _unused_)
{
    struct process_event events[] = {
        make_event(EVENT_SPAWN, 0, 10, "make"),
        make_event(EVENT_EXEC, MS, 10, "make -j8"),
        make_event(EVENT_SIGNAL, 2 * MS, 10, "make -j8"),
        make_event(EVENT_EXIT, -86400, 0, NULL),
        make_event(EVENT_EXIT, 4.2, 0, "true"),
        make_event(EVENT_KILL, 5, 10, "make -j8"),
    };
    const struct process_event_list list = {events, ARRAY_SIZE(events)};
    const struct event_table_options options = {.day = START};
    _cleanup_text_ struct text out = {0};

    events[0].ppid = 9;
    events[0].job_id = "make-7f3a";
    events[2].signal_num = 2;
    events[2].sender_pid = 0;
    events[3].details = "Sheet 3 completed";
    events[3].sheet_num = 3;
    events[3].exit_code = 0;
    events[4].count = 19800;
    events[4].first_timestamp = START + 1;
    events[4].exit_code = 0;
    events[4].cpu_seconds = 12.3;
    events[5].signal_num = 15;
    events[5].sender_pid = 812;
    events[5].sender_command = "/usr/bin/timeout 12 make -j8";
    event_table_format(&list, &options, &plain, &out);
    assert_string_equal(
        out.bytes,
        "               TIME  EVENT   PID  JOB        DETAILS                                      "
        " COMMAND\n"
        "       14:03:22.000  spawn    10  make-7f3a  by pid 9                                     "
        " make\n"
        "       14:03:22.001  exec     10  -          -                                            "
        " make -j8\n"
        "       14:03:22.002  signal   10  -          SIGINT from the kernel                       "
        " make -j8\n"
        "Jul 13 14:03:22.000  step      -  -          3 completed                                  "
        " -\n"
        "       14:03:26.200  exit      -  -          ×19,800 within 3.20 s, status 0, CPU 12.30 s "
        " true\n"
        "       14:03:27.000  kill     10  -          SIGTERM from pid 812 (timeout)               "
        " make -j8\n");
}

/* ---- the summary ---- */

static void test_summary(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};
    struct left_process left[] = {{4242, "sleep\033[1m 100"}};
    struct run_summary summary;

    record_init(&run_summary_record, &summary);
    summary.profile.job_id = "make-7f3a";
    summary.outcome = OUTCOME_FAILURE;
    summary.cause = "exit status 2";
    summary.profile.wall_seconds = 12.3;
    summary.profile.cpu_seconds = 23.4;
    summary.profile.user_seconds = 20.1;
    summary.profile.system_seconds = 3.3;
    summary.profile.peak_rss_mb = 812.4;
    summary.profile.peak_total_mb = 1945.6;
    summary.profile.peak_unique_mb = 1900;
    summary.profile.processes = 1501;
    summary.profile.exactness.cpu_seconds = LOWER_BOUND;
    summary.profile.exactness.peak_rss_mb = EXACT;
    summary.profile.exactness.processes = EXACT;
    summary.profile.exactness.peak_total_mb = SAMPLED;
    summary.left_running = (struct left_process_list){left, 1};
    short_summary_format(&summary, 0, &plain, &out);
    assert_string_equal(text_string(&out),
                        "sonde: make-7f3a: failure, exit status 2\n"
                        "  wall       12.30 s\n"
                        "  CPU        ≥ 23.40 s (user ≥ 20.10 s, system ≥ 3.30 s), 1.90 cores\n"
                        "  memory     812.4 MB largest process\n"
                        "             ~ 1.90 GB all processes, ≥ 1.86 GB together\n"
                        "  processes  1,501\n"
                        "  left       pid 4242 still running: sleep\\x1b[1m 100\n");
}

static void test_bound_of_zero_is_not_shown(void **state _unused_)
{
    _cleanup_text_ struct text bounds = {0}, samples = {0};
    struct run_summary summary;

    record_init(&run_summary_record, &summary);
    struct job_profile *profile = &summary.profile;
    profile->cpu_seconds = 0.075;
    profile->user_seconds = profile->system_seconds = 0;
    profile->exactness.cpu_seconds = LOWER_BOUND;
    profile->exactness.user_seconds = profile->exactness.system_seconds = LOWER_BOUND;
    run_figures_format_cpu(profile, &bounds);
    assert_string_equal(text_string(&bounds), "≥ 75 ms");
    profile->exactness.user_seconds = profile->exactness.system_seconds = SAMPLED;
    run_figures_format_cpu(profile, &samples);
    assert_string_equal(text_string(&samples), "≥ 75 ms (user ~ 0.00 ms, system ~ 0.00 ms)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_fits_the_terminal),
        cmocka_unit_test(test_jobs_fit_the_terminal),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_bound_of_zero_is_not_shown),
    };
    return cmocka_run_group_tests(tests, report_world_set_up, NULL);
}
