#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "model/record-json.h"
#include "model/snapshot.h"
#include "report/event-line.h"
#include "report/status-text.h"

/* 2026-07-14 14:03:22 UTC; main() sets the time zone. */
#define START 1784037802.0

static const struct report_style plain = {.columns = SIZE_MAX};
static const struct report_style coloured = {.columns = SIZE_MAX, .with_colour = true};

static struct arena arena;

static struct event_line decode(const char *json)
{
    struct event_line line;

    assert_int_equal(event_line_decode(json, strlen(json), &arena, &line), 0);
    return line;
}

static void expect_line(const char *json, const struct report_style *style, const char *expected)
{
    _cleanup_text_ struct text out = {0};
    struct event_line line = decode(json);

    event_line_format(&line, START, style, &out);
    assert_int_equal(text_error(&out), 0);
    assert_string_equal(out.bytes, expected);
}

#define ENVELOPE(event, more)                                                                      \
    "{\"event\":\"" event "\",\"timestamp\":1784037802.5,\"job_id\":\"make-7f3a\","                \
    "\"sheet_num\":3,\"data\":{" more "}}"

/* ---- lines ---- */

static void test_events_of_processes(void **state _unused_)
{
    expect_line(ENVELOPE("process.exit",
                         "\"timestamp\":1784037801.25,\"pid\":812,\"event_type\":\"exit\","
                         "\"exit_code\":2,\"cpu_seconds\":1.2,\"command\":\"cc -c a\\u001b.c\""),
                &plain,
                "14:03:21.250  exit         812  make-7f3a     status 2, CPU 1.20 s  "
                "cc -c a\\x1b.c\n");
    expect_line("{\"event\":\"process.spawn\",\"timestamp\":1784037802,\"data\":{"
                "\"timestamp\":1784037802,\"pid\":9,\"event_type\":\"spawn\"}}",
                &plain, "14:03:22.000  spawn          9  -\n");
    expect_line(ENVELOPE("process.kill", "\"timestamp\":1784037802,\"pid\":1,"
                                         "\"event_type\":\"kill\",\"signal_num\":9"),
                &coloured,
                "14:03:22.000  \033[31mkill   \033[0m        1  make-7f3a     SIGKILL\n");
}

static void test_anomalies_and_gaps(void **state _unused_)
{
    expect_line(ENVELOPE("monitor.anomaly",
                         "\"timestamp\":1784037802.5,\"anomaly_type\":\"memory_spike\","
                         "\"pid\":77,\"severity\":\"critical\",\"description\":\"RSS grew\""),
                &plain,
                "14:03:22.500  anomaly       77  make-7f3a     critical memory_spike: RSS grew\n");
    expect_line(ENVELOPE("monitor.anomaly_cleared",
                         "\"timestamp\":1784037792.5,\"anomaly_type\":\"zombie\","
                         "\"cleared_at\":1784037802.5"),
                &plain, "14:03:22.500  cleared        -  make-7f3a     zombie, after 10.00 s\n");
    expect_line("{\"event\":\"monitor.gap\",\"timestamp\":1784037802,\"data\":{\"kind\":"
                "\"suspend\",\"timestamp\":1784037802,\"seconds\":60,\"reason\":\"lid\"}}",
                &plain,
                "14:03:22.000  gap            -  -             1 m 00 s not sampled: the machine "
                "was suspended: lid\n");
}

static void test_jobs_and_steps(void **state _unused_)
{
    expect_line(ENVELOPE("job.started", "\"run_id\":\"r\",\"outcome\":\"running\","
                                        "\"command\":\"make test\",\"profile\":{}"),
                &plain, "14:03:22.500  job            -  make-7f3a     started  make test\n");
    expect_line(ENVELOPE("job.progress", "\"current_sheet\":3,\"total_sheets\":10,"
                                         "\"status\":\"building\""),
                &plain,
                "14:03:22.500  job            -  make-7f3a     progress, step 3 of 10, building\n");
    expect_line(ENVELOPE("job.finished", "\"outcome\":\"failure\",\"exit_code\":2"), &plain,
                "14:03:22.500  job            -  make-7f3a     finished: failure, exit status 2\n");
    expect_line(ENVELOPE("job.finished", "\"outcome\":\"success\",\"exit_code\":0"), &coloured,
                "14:03:22.500  \033[32mjob    \033[0m        -  make-7f3a     finished: "
                "success\n");
    expect_line(ENVELOPE("sheet.failed", "\"name\":\"link\",\"pid\":5,\"exit_code\":1"), &plain,
                "14:03:22.500  step           5  make-7f3a     3 failed, status 1 (link)\n");
    expect_line(ENVELOPE("sheet.started", ""), &plain,
                "14:03:22.500  step           -  make-7f3a     3 started\n");
}

/* A stored step reads like one that is published. */
static void test_stored_steps(void **state _unused_)
{
    static const struct {
        const char *data, *name, *line;
    } cases[] = {
        {"\"event_type\":\"spawn\",\"details\":\"Sheet 3 started\"", "sheet.started",
         "14:03:22.000  step           5  make-7f3a     3 started\n"},
        {"\"event_type\":\"exit\",\"details\":\"Sheet 3 completed\",\"exit_code\":0",
         "sheet.completed", "14:03:22.000  step           5  make-7f3a     3 completed\n"},
        {"\"event_type\":\"exit\",\"details\":\"Sheet 3 failed\",\"exit_code\":2", "sheet.failed",
         "14:03:22.000  step           5  make-7f3a     3 failed, status 2\n"},
        {"\"event_type\":\"exit\",\"details\":\"Sheet 4 failed\",\"exit_code\":2", "process.exit",
         "14:03:22.000  exit           5  make-7f3a     status 2, Sheet 4 failed\n"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_text_ struct text json = {0}, text = {0};
        struct process_event event;
        struct decode_error error;
        text_printf(&json,
                    "{\"timestamp\":1784037802,\"pid\":5,\"job_id\":\"make-7f3a\","
                    "\"sheet_num\":3,%s}",
                    cases[i].data);
        assert_int_equal(
            record_decode(&process_event_record, json.bytes, json.length, &arena, &event, &error),
            0);
        const struct event_line line = event_line_of_process(&event);
        event_line_format(&line, START, &plain, &text);
        assert_string_equal(text.bytes, cases[i].line);
        assert_string_equal(event_name_text(event_line_name(&line)), cases[i].name);
        /* JSON keeps the stored name. */
        assert_int_equal(strncmp(line.event, "process.", 8), 0);
    }
}

static void test_events_of_a_newer_daemon(void **state _unused_)
{
    struct event_line line = decode(ENVELOPE("disk.full", "\"x\":1"));

    assert_int_equal(line.kind, EVENT_KIND_OTHER);
    expect_line(ENVELOPE("disk.full", "\"x\":1"), &plain,
                "14:03:22.500  full           -  make-7f3a\n");
    /* A known name with unexpected data: the name and the job are still decoded. */
    line = decode(ENVELOPE("process.exit", "\"pid\":\"seven\""));
    assert_int_equal(line.kind, EVENT_KIND_OTHER);
    assert_string_equal(line.job_id, "make-7f3a");
    assert_int_equal(event_line_pid(&line), 0);
    assert_null(event_line_run_id(&line));

    static const char *const wrong[] = {"", "[]", "{}", "{\"event\":7,\"timestamp\":1}",
                                        "{\"event\":\"a\"}"};
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        assert_int_equal(event_line_decode(wrong[i], strlen(wrong[i]), &arena, &line), -EBADMSG);
}

static void test_a_line_fits_the_terminal(void **state _unused_)
{
    const struct report_style narrow = {.columns = 59};

    expect_line(ENVELOPE("process.spawn",
                         "\"timestamp\":1784037802,\"pid\":9,"
                         "\"event_type\":\"spawn\",\"command\":\"a long command\""),
                &narrow, "14:03:22.000  spawn          9  make-7f3a     a long comma…\n");
}

static void test_stored_event_has_an_envelope(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};
    struct process_event event;
    struct event_line again;

    record_init(&process_event_record, &event);
    event.timestamp = START + 0.25;
    event.pid = 12;
    event.event_type = EVENT_OOM;
    event.job_id = "train";
    event.run_id = "r-1";
    const struct event_line line = event_line_of_process(&event);
    event_line_encode_event(&line, &out);
    assert_int_equal(event_line_decode(out.bytes, out.length, &arena, &again), 0);
    assert_string_equal(again.event, "process.oom");
    assert_true(again.timestamp == START + 0.25);
    assert_string_equal(again.job_id, "train");
    assert_false(int_is_known(again.sheet_num));
    assert_int_equal(again.kind, EVENT_KIND_PROCESS);
    assert_int_equal(event_line_pid(&again), 12);
    assert_string_equal(event_line_run_id(&again), "r-1");
}

/* ---- the daemon's status ---- */

static struct daemon_status make_status(void)
{
    static const char *exact[] = {"births and deaths", "CPU time"};
    static const char *not_exact[] = {"peak memory: sampled"};
    struct daemon_status status;

    record_init(&daemon_status_record, &status);
    status.version = "0.1.0";
    status.pid = 42;
    status.uptime_seconds = 3600;
    status.host = "build-01";
    status.socket = "/run/sonde/sonde.sock";
    status.interval_seconds = 5;
    status.scope = "jobs";
    status.collector = "procfs";
    status.collector_reason = "no CAP_BPF";
    status.exact = (struct text_list){.items = exact, .count = 2};
    status.not_exact = (struct text_list){.items = not_exact, .count = 1};
    status.connections = 1;
    status.running_jobs = 2;
    status.open_anomalies = 0;
    status.pressure_level = PRESSURE_LOW;
    status.snapshots = 720;
    status.last_snapshot_at = START - 2;
    status.rss_mb = 12.5;
    status.cpu_percent = 0.2;
    status.collect_ms = 8;
    status.database = "/var/lib/sonde/monitor.db";
    return status;
}

static void test_status(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};
    struct daemon_status status = make_status();

    assert_int_equal(daemon_status_format(&status, START, &plain, &out), 0);
    assert_string_equal(out.bytes, "daemon: running for 1 h 00 m, pid 42, version 0.1.0, on "
                                   "build-01\n"
                                   "  socket     /run/sonde/sonde.sock\n"
                                   "  config     built-in defaults\n"
                                   "  collector  procfs, every 5.00 s, scope jobs\n"
                                   "  because    no CAP_BPF\n"
                                   "  exact      births and deaths\n"
                                   "             CPU time\n"
                                   "  not exact  peak memory: sampled\n"
                                   "  jobs       2 running\n"
                                   "  anomalies  0 open\n"
                                   "  pressure   low\n"
                                   "  cost       CPU 0.2 %, 12.5 MB memory, 8.00 ms per snapshot\n"
                                   "  snapshots  720, the last at 14:03:20\n"
                                   "  database   /var/lib/sonde/monitor.db\n"
                                   "  clients    1 connection\n");
}

static void test_losses_are_highlighted(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};
    struct daemon_status status = make_status();
    struct gap gaps[7];

    for (size_t i = 0; i < ARRAY_SIZE(gaps); i++)
        gaps[i] = (struct gap){.kind = GAP_SUSPEND,
                               .timestamp = START - 100 + (double)i,
                               .seconds = 60,
                               .lost = INT_UNKNOWN};
    status.losses.missed_ticks = 1;
    status.losses.snapshots_not_stored = 1200;
    status.losses.failed_collections = 0;
    status.database_error = "disk full\033";
    status.last_snapshot_at = START - 60;
    status.gaps = (struct gap_list){.items = gaps, .count = ARRAY_SIZE(gaps)};
    daemon_status_format(&status, START, &coloured, &out);
    assert_non_null(strstr(out.bytes, "  NOT STORED \033[31mdisk full\\x1b\033[0m\n"));
    assert_non_null(strstr(out.bytes, "  LOST       \033[31m1 tick missed\033[0m\n"
                                      "             \033[31m1,200 snapshots not stored\033[0m\n"));
    assert_null(strstr(out.bytes, "collection"));
    assert_non_null(strstr(out.bytes, "\033[31m14:02:22\033[0m")); /* it is late */
    assert_non_null(strstr(out.bytes, "gaps\033[0m (the latest)\n"));
    assert_null(strstr(out.bytes, "14:01:43"));
    assert_non_null(strstr(out.bytes, "14:01:48"));
}

static void test_status_without_known_figures(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};
    struct daemon_status status;

    record_init(&daemon_status_record, &status);
    assert_int_equal(daemon_status_format(&status, START, &plain, &out), 0);
    assert_non_null(strstr(out.bytes, "  jobs       - running\n"));
    assert_null(strstr(out.bytes, "LOST"));
    assert_null(strstr(out.bytes, "gaps"));
}

static int clean(void **state _unused_)
{
    arena_done(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events_of_processes),
        cmocka_unit_test(test_anomalies_and_gaps),
        cmocka_unit_test(test_jobs_and_steps),
        cmocka_unit_test(test_stored_steps),
        cmocka_unit_test(test_events_of_a_newer_daemon),
        cmocka_unit_test(test_a_line_fits_the_terminal),
        cmocka_unit_test(test_stored_event_has_an_envelope),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_losses_are_highlighted),
        cmocka_unit_test(test_status_without_known_figures),
    };
    setenv("TZ", "UTC", 1);
    tzset();
    return cmocka_run_group_tests(tests, NULL, clean);
}
