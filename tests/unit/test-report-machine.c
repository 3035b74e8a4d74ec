/* The machine's report as text; and the names in the JSON of both reports, on which other programs
 * rely. */
#include "report-world.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "model/record-json.h"
#include "report/machine-report.h"

/* ---- JSON ---- */

static void encode(const struct record *record, const void *object, struct text *out)
{
    struct json_writer json = {.out = out};

    text_reset(out);
    record_encode(record, object, &json);
    assert_int_equal(text_error(out), 0);
}

static void assert_has_keys(const struct text *json, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char key[64];
        snprintf(key, sizeof(key), "\"%s\":", names[i]);
        if (!strstr(json->bytes, key))
            fail_msg("no %s in %s", key, json->bytes);
    }
}

static void test_json_has_the_promised_names(void **state _unused_)
{
    static const char *const names[] = {
        "run_id", "job_id", "job_type", "command", "cwd", "uid", "host", "started_at", "ended_at",
        "outcome", "exit_code", "signal_num", "cause", "total_sheets", "parent_run_id",
        /* the profile */
        "peak_rss_mb", "cpu_seconds", "processes", "unique_pid_count", "syscall_hotspots",
        "sheet_metrics", "peak_total_mb", "peak_unique_mb", "wall_seconds", "user_seconds",
        "system_seconds", "read_bytes", "write_bytes", "syscall_counts", "exactness",
        /* the report */
        "as_of", "sheets", "events", "events_left_out", "anomalies", "gaps", "earlier_runs",
        /* in its lists */
        "sheet_num", "max_cpu_pct", "cpu_seconds", "event_type", "sender_pid", "sender_command",
        "details", "anomaly_type", "severity", "metric_value", "threshold", "cleared_at", "kind",
        "lost", "reason"};
    struct job_report report = make_full_report(), again;
    struct process_event event = make_event(EVENT_KILL, 1, 5, HOSTILE);
    struct sheet sheet;
    struct anomaly anomaly;
    struct gap gap = {GAP_NOT_STORED, START, 1, 1, NULL};
    struct decode_error error;
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_text_ struct text out = {0};

    record_init(&sheet_record, &sheet);
    record_init(&anomaly_record, &anomaly);
    sheet.run_id = "r";
    sheet.sheet_num = 3;
    anomaly.timestamp = START;
    anomaly.anomaly_type = "zombie";
    report.events = (struct process_event_list){&event, 1};
    report.sheets = (struct sheet_list){&sheet, 1};
    report.anomalies = (struct anomaly_list){&anomaly, 1};
    report.gaps = (struct gap_list){&gap, 1};
    encode(&job_report_record, &report, &out);
    assert_has_keys(&out, names, ARRAY_SIZE(names));
    assert_null(strchr(out.bytes, '\n'));

    assert_int_equal(
        record_decode(&job_report_record, out.bytes, out.length, &arena, &again, &error), 0);
    assert_string_equal(again.job.job_id, "make-7f3a");
    assert_true(again.job.profile.peak_rss_mb == 812.4);
    assert_false(int_is_known(again.job.profile.kill_count));
    assert_int_equal(again.events.items[0].event_type, EVENT_KILL);
    assert_int_equal(again.job.profile.exactness.cpu_seconds, LOWER_BOUND);
}

/* ---- the machine ---- */

static struct machine_report make_machine_report(void)
{
    struct machine_report report;

    record_init(&machine_report_record, &report);
    report.as_of = START + 3600;
    report.since = START;
    report.until = START + 3600;
    report.jobs_left_out = report.events_left_out = 0;
    return report;
}

static void test_machine(void **state _unused_)
{
    struct machine_report report = make_machine_report();
    struct process_use processes[] = {{10, "cc1 -O2", "make-7f3a", 12.5, 100},
                                      {11, "java " HOSTILE, NULL, 1, 2048},
                                      {12, "unknown", NULL, REAL_UNKNOWN, REAL_UNKNOWN}};
    struct tally counts[] = {{"spawn", 1501}, {"kill", 1}};
    struct job job = make_full_report().job;
    struct process_event event = make_event(EVENT_KILL, 1, 5, "sleep 5");
    _cleanup_text_ struct text out = {0};

    assert_true(machine_report_is_empty(&report));
    report.use.samples = 720;
    assert_false(machine_report_is_empty(&report));
    report.use.first = START + 2;
    report.use.last = START + 3598;
    report.use.cpu_count = 4;
    report.use.system_memory_total_mb = 16384;
    report.use.system_cpu_percent = (struct use_range){3, 45.25, 398};
    report.use.system_memory_used_mb = (struct use_range){1000, 2048, 4096};
    report.use.load_avg_1 = (struct use_range){0.1, 1.5, REAL_UNKNOWN};
    report.use.max_zombies = 2;
    report.use.event_counts = (struct tally_list){counts, ARRAY_SIZE(counts)};
    report.use.processes = (struct process_use_list){processes, ARRAY_SIZE(processes)};
    report.jobs = (struct job_list){&job, 1};
    report.events = (struct process_event_list){&event, 1};
    report.events_left_out = INT_UNKNOWN;
    assert_int_equal(machine_report_format(&report, &plain, &out), 0);
    assert_harmless(&out);
    assert_string_equal(
        out.bytes,
        "2026-07-14 14:03:22 +0000 to 2026-07-14 15:03:22 +0000: 1 h 00 m\n"
        "  samples    720, from 14:03:24 to 15:03:20\n"
        "  events     1,501 spawn, 1 kill\n"
        "  zombies    2 at one time at most\n"
        "\n"
        "                MIN     MEAN      MAX        OF\n"
        "  CPU         3.0 %   45.2 %  398.0 %   400.0 %\n"
        "  memory  1000.0 MB  2.00 GB  4.00 GB  16.00 GB\n"
        "  load         0.10     1.50        -      4.00\n"
        "\njobs\n"
        "  JOB        OUTCOME   STARTED     WALL        CPU   LARGEST  TYPE\n"
        "  make-7f3a  success  14:03:22  12.30 s  ≥ 23.40 s  812.4 MB  make test @parser\n"
        "\nmost CPU time\n"
        "      CPU    MEMORY  PID  JOB        COMMAND\n"
        "  12.50 s  100.0 MB   10  make-7f3a  cc1 -O2\n"
        "   1.00 s   2.00 GB   11  -          java x\\x1b[2J\\n\\r\\b\\u202e\\x9b \\xff\n"
        "        -         -   12  -          unknown\n"
        "\nmost memory\n"
        "      CPU    MEMORY  PID  JOB        COMMAND\n"
        "   1.00 s   2.00 GB   11  -          java x\\x1b[2J\\n\\r\\b\\u202e\\x9b \\xff\n"
        "  12.50 s  100.0 MB   10  make-7f3a  cc1 -O2\n"
        "        -         -   12  -          unknown\n"
        "\nsignals, kills and failures (the latest)\n"
        "          TIME  EVENT  PID  COMMAND\n"
        "  14:03:23.000  kill     5  sleep 5\n");
}

static void test_machine_json(void **state _unused_)
{
    static const char *const names[] = {"as_of",   "since",        "until",
                                        "use",     "jobs",         "events",
                                        "gaps",    "anomalies",    "system_cpu_percent",
                                        "min",     "mean",         "max",
                                        "samples", "event_counts", "processes"};
    struct machine_report report = make_machine_report(), again;
    struct decode_error error;
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_text_ struct text out = {0};

    report.use.load_avg_1.max = 3.5;
    encode(&machine_report_record, &report, &out);
    assert_has_keys(&out, names, ARRAY_SIZE(names));
    assert_int_equal(
        record_decode(&machine_report_record, out.bytes, out.length, &arena, &again, &error), 0);
    assert_true(again.use.load_avg_1.max == 3.5);
    assert_false(real_is_known(again.use.load_avg_1.min));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_has_the_promised_names),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_machine_json),
    };
    return cmocka_run_group_tests(tests, report_world_set_up, NULL);
}
