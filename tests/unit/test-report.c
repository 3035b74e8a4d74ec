#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "model/process.h"
#include "model/record-json.h"
#include "report/earlier-runs.h"
#include "report/event-table.h"
#include "report/figures.h"
#include "report/job-report.h"
#include "report/job-table.h"
#include "report/machine-report.h"
#include "report/run-figures.h"
#include "report/short-summary.h"
#include "report/style.h"
#include "report/table.h"

/* 2026-07-14 14:03:22 UTC; main() sets the time zone. */
#define START 1784037802.0
#define MS    0.001

static const struct report_style plain = {.columns = SIZE_MAX};
static const struct report_style coloured = {.columns = SIZE_MAX, .with_colour = true};

/* ---- hand-made runs ---- */

static struct job_report make_report(int outcome)
{
    struct job_report report;

    record_init(&job_report_record, &report);
    report.as_of = START + 600;
    report.job.run_id = "0197c2f4-7d1a-7000-8000-00000000002a";
    report.job.job_id = "make-7f3a";
    report.job.started_at = START;
    report.job.outcome = outcome;
    report.events_left_out = 0;
    return report;
}

static struct job_report make_full_report(void)
{
    struct job_report report = make_report(OUTCOME_SUCCESS);
    struct job_profile *profile = &report.job.profile;

    report.job.job_type = "make test @parser";
    report.job.command = "make -j8 test --password=***";
    report.job.cwd = "/work/parser";
    report.job.host = "build-01";
    report.job.uid = 1000;
    report.job.ended_at = START + 12.3;
    report.job.exit_code = 0;
    profile->wall_seconds = 12.3;
    profile->total_cpu_seconds = 23.4;
    profile->user_seconds = 20.1;
    profile->system_seconds = 3.3;
    profile->peak_rss_mb = 812.4;
    profile->peak_total_mb = 1945.6;
    profile->peak_unique_mb = 1900;
    profile->process_spawn_count = 1501;
    profile->exit_count = 1501;
    profile->left_running = 0;
    profile->max_cpu_pct = 398.2;
    profile->read_bytes = 3 * 1024 * 1024;
    profile->write_bytes = 0;
    profile->num_samples = 124;
    profile->collector = "procfs";
    profile->exactness.cpu_seconds = LOWER_BOUND;
    profile->exactness.peak_rss_mb = EXACT;
    profile->exactness.peak_total_mb = SAMPLED;
    profile->exactness.processes = EXACT;
    return report;
}

static struct process_event make_event(int type, double after, int64_t pid, const char *command)
{
    struct process_event event;

    record_init(&process_event_record, &event);
    event.timestamp = START + after;
    event.event_type = type;
    event.pid = pid;
    event.command = command;
    return event;
}

static const char *format(const struct job_report *report, const struct report_style *style,
                          struct text *out)
{
    text_reset(out);
    assert_int_equal(job_report_format(report, style, out), 0);
    return text_string(out);
}

/* ---- a run ---- */

static void test_success(void **state _unused_)
{
    struct job_report report = make_full_report();
    _cleanup_text_ struct text out = {0};

    assert_string_equal(format(&report, &plain, &out),
                        "make-7f3a: success\n"
                        "  command    make -j8 test --password=***\n"
                        "  where      /work/parser on build-01, uid 1000\n"
                        "  type       make test @parser\n"
                        "  run        0197c2f4-7d1a-7000-8000-00000000002a\n"
                        "  started    2026-07-14 14:03:22 +0000\n"
                        "  ended      2026-07-14 14:03:34 +0000\n"
                        "  memory     812.4 MB of one process, ~ 1.90 GB in all "
                        "(1.86 GB unshared)\n"
                        "  CPU        ≥ 23.40 s (user 20.10 s, system 3.30 s), 1.90 cores, "
                        "at most 398.2 %\n"
                        "  wall       12.30 s\n"
                        "  processes  1,501 started, 1,501 ended\n"
                        "  I/O        ≥ 3.0 MB read, ≥ 0.0 MB written\n"
                        "  samples    124 by procfs\n");
}

static void test_killed_with_sender(void **state _unused_)
{
    struct job_report report = make_full_report();
    struct process_event events[] = {
        make_event(EVENT_SIGNAL, 1, 4242, "python train.py"),
        make_event(EVENT_EXIT, 2.5, 4250, "sh -c false"),
        make_event(EVENT_OOM, 12.2, 4243, "python worker.py"),
        make_event(EVENT_KILL, 12.25, 4242, "python train.py"),
    };
    _cleanup_text_ struct text out = {0};

    events[0].signal_num = 10;
    events[1].exit_code = 1;
    events[1].cpu_seconds = 0.25;
    events[1].peak_rss_mb = 12;
    events[3].signal_num = 9;
    events[3].sender_pid = 812;
    events[3].sender_command = "timeout 12 python";
    report.events = (struct process_event_list){events, ARRAY_SIZE(events)};
    report.events_left_out = 3;
    report.job.outcome = OUTCOME_FAILURE;
    report.job.signal_num = 9;
    report.job.profile.failed_exit_count = 4;
    report.job.profile.kill_count = 1;
    report.job.profile.oom_count = 1;
    report.job.profile.signal_count = 1;
    report.job.profile.zombie_count = 2;
    report.job.profile.left_running = 3;
    format(&report, &plain, &out);

    const char *beginning = "make-7f3a: failure, killed by SIGKILL\n"
                            "  OOM        pid 4243 killed for memory by the kernel at "
                            "14:03:34.200: python worker.py\n"
                            "  command    ";
    assert_int_equal(strncmp(out.bytes, beginning, strlen(beginning)), 0);
    assert_non_null(strstr(out.bytes,
                           "  processes  1,501 started, 1,501 ended, 3 left running\n"
                           "  failed     4 with a status other than 0, 1 killed by a signal\n"
                           "  OOM kills  1 killed by the kernel for memory\n"
                           "  signals    1 seen that ended nothing\n"
                           "  zombies    2 seen at once\n"));
    assert_non_null(strstr(
        out.bytes,
        "\nsignals, kills and failures (the latest; 3 more)\n"
        "          TIME  EVENT    PID  WHAT                                      COMMAND\n"
        "  14:03:23.000  signal  4242  SIGUSR1                                   python train.py\n"
        "  14:03:24.500  exit    4250  status 1, CPU 250 ms, 12.0 MB peak        sh -c false\n"
        "  14:03:34.200  oom     4243  -                                         python worker.py\n"
        "  14:03:34.250  kill    4242  SIGKILL from pid 812 (timeout 12 python)  python "
        "train.py\n"));
}

static void test_cause(void **state _unused_)
{
    static const struct {
        int outcome;
        const char *cause;
        int64_t exit_code, signal_num;
        const char *line;
    } cases[] = {
        {OUTCOME_FAILURE, "killed by SIGTERM, sent by pid 7 (sh)", INT_UNKNOWN, 15,
         "make-7f3a: failure, killed by SIGTERM, sent by pid 7 (sh)\n"},
        {OUTCOME_FAILURE, NULL, 2, INT_UNKNOWN, "make-7f3a: failure, exit status 2\n"},
        {OUTCOME_FAILURE, NULL, INT_UNKNOWN, 34, "make-7f3a: failure, killed by signal 34\n"},
        {OUTCOME_FAILURE, NULL, INT_UNKNOWN, INT_UNKNOWN, "make-7f3a: failure\n"},
        {OUTCOME_UNKNOWN, "lost", INT_UNKNOWN, INT_UNKNOWN,
         "make-7f3a: unknown, lost: nobody was there to tell how it ended\n"},
        {OUTCOME_SUCCESS, NULL, 0, INT_UNKNOWN, "make-7f3a: success\n"},
        {OUTCOME_UNKNOWN_YET, NULL, INT_UNKNOWN, INT_UNKNOWN, "make-7f3a: -\n"},
    };
    _cleanup_text_ struct text out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct job_report report = make_report(cases[i].outcome);
        report.job.cause = cases[i].cause;
        report.job.exit_code = cases[i].exit_code;
        report.job.signal_num = cases[i].signal_num;
        format(&report, &plain, &out);
        out.bytes[strcspn(out.bytes, "\n") + 1] = '\0';
        assert_string_equal(out.bytes, cases[i].line);
    }
}

/* ---- how it died ---- */

static void test_chain_and_last_memory(void **state _unused_)
{
    struct job_report report = make_report(OUTCOME_FAILURE);
    struct process_event chain[] = {
        make_event(EVENT_KILL, 3, 12, "/usr/lib/cc1 a.c"),
        make_event(EVENT_EXIT, 3.5, 10, "make"),
    };
    struct memory_point points[] = {{START + 2, 120.25, 3}, {START + 3.9, 2048, 4}};
    _cleanup_text_ struct text out = {0};

    chain[0].signal_num = 9;
    chain[0].sender_pid = 77;
    chain[0].sender_command = "kill -9 12";
    chain[1].exit_code = 2;
    report.job.ended_at = START + 4;
    report.job.cause = "exit status 2: cc1 (12) killed by SIGKILL → make exited 2";
    report.job.chain = (struct process_event_list){chain, 2};
    report.last_memory = (struct memory_point_list){points, 2};
    const char *text = format(&report, &plain, &out);
    assert_non_null(strstr(text, "make-7f3a: failure, exit status 2: cc1 (12) killed by SIGKILL →"
                                 " make exited 2\n"));
    assert_non_null(strstr(
        text, "how it came to fail (the first failure first)\n"
              "          TIME  EVENT  PID  WHAT                              COMMAND\n"
              "  14:03:25.000  kill    12  SIGKILL from pid 77 (kill -9 12)  /usr/lib/cc1 a.c\n"
              "  14:03:25.500  exit    10  status 2                          make\n"));
    assert_non_null(strstr(text, "its last memory\n"
                                 "  BEFORE THE END    MEMORY  PROCESSES\n"
                                 "          2.00 s  120.2 MB          3\n"
                                 "          100 ms   2.00 GB          4\n"));
    /* one that died alone needs no table */
    report.job.chain.count = 1;
    report.last_memory.count = 0;
    text = format(&report, &plain, &out);
    assert_null(strstr(text, "how it came to fail"));
    assert_null(strstr(text, "its last memory"));
}

static struct process_event make_folded(int type, const char *command, int64_t count)
{
    struct process_event event = make_event(type, 4, 0, command);

    event.count = count;
    event.first_timestamp = START + 1;
    event.run_id = "run";
    return event;
}

static void test_storms(void **state _unused_)
{
    struct job_report report = make_report(OUTCOME_SUCCESS);
    struct process_event folded[] = {
        make_folded(EVENT_SPAWN, "test", 310),   make_folded(EVENT_EXIT, "test", 10),
        make_folded(EVENT_EXIT, "test", 290),    make_folded(EVENT_KILL, "test", 10),
        make_folded(EVENT_SPAWN, "true", 19800), make_folded(EVENT_EXEC, "true", 19800),
        make_folded(EVENT_EXIT, "true", 19800),  make_folded(EVENT_EXIT, NULL, 1),
    };
    _cleanup_text_ struct text out = {0};

    folded[1].exit_code = folded[6].exit_code = folded[7].exit_code = 0;
    folded[2].exit_code = 1;
    folded[3].signal_num = 9;
    folded[1].cpu_seconds = 0.5; /* the others have not told */
    folded[6].cpu_seconds = 12.3;
    folded[6].peak_rss_mb = 1.2;
    report.storms = (struct process_event_list){folded, ARRAY_SIZE(folded)};
    const char *text = format(&report, &plain, &out);
    const char *storms = strstr(text, "storms");
    assert_non_null(storms);
    assert_string_equal(
        storms,
        "storms (counted, not stored one by one)\n"
        "  PROGRAM  STARTED   ENDED                             FAILED       CPU    PEAK  WITHIN\n"
        "  true      19,800  19,800                                  0   12.30 s  1.2 MB  3.00 s\n"
        "  test         310     310  300: 290 × status 1, 10 × SIGKILL  ≥ 500 ms       -  3.00 s\n"
        "  -              0       1                                  0         -       -  3.00 "
        "s\n");
}

static void test_running(void **state _unused_)
{
    struct job_report report = make_report(OUTCOME_RUNNING);
    struct sheet sheets[2];
    _cleanup_text_ struct text out = {0};

    record_init(&sheet_record, &sheets[0]);
    record_init(&sheet_record, &sheets[1]);
    sheets[0].sheet_num = 1;
    sheets[0].name = "compile";
    sheets[0].started_at = START;
    sheets[0].ended_at = START + 90;
    sheets[0].outcome = OUTCOME_SUCCESS;
    sheets[0].peak_rss_mb = 300;
    sheets[0].max_cpu_pct = 390;
    sheets[0].cpu_seconds = 300.5;
    sheets[1].sheet_num = 2;
    sheets[1].started_at = START + 90;
    sheets[1].outcome = OUTCOME_RUNNING;
    report.sheets = (struct sheet_list){sheets, 2};
    report.job.total_sheets = 3;
    report.job.profile.wall_seconds = 600;
    report.job.profile.peak_rss_mb = 300;
    report.job.profile.process_spawn_count = 7;
    report.earlier_runs.runs = 5; /* nothing to compare with yet */
    format(&report, &plain, &out);
    assert_int_equal(
        strncmp(out.bytes, "make-7f3a: running, figures as of 2026-07-14 14:13:22 +0000\n", 59), 0);
    assert_null(strstr(out.bytes, "ended  "));
    assert_null(strstr(out.bytes, "earlier runs"));
    assert_non_null(strstr(out.bytes, "  memory     ≥ 300.0 MB of one process\n"
                                      "  CPU        -\n"
                                      "  wall       10 m 00 s\n"
                                      "  processes  ≥ 7 started\n"));
    assert_non_null(strstr(out.bytes,
                           "\nsheets (2 of 3)\n"
                           "  SHEET  NAME     OUTCOME      WALL       CPU  MAX CPU    MEMORY\n"
                           "      1  compile  success  1 m 30 s  5 m 00 s  390.0 %  300.0 MB\n"
                           "      2  -        running  8 m 30 s         -        -         -\n"));
}

/* "-" where a figure belongs, no line where there is nothing to tell, and never a 0. */
static void test_unknown_everywhere(void **state _unused_)
{
    struct job_report report = make_report(OUTCOME_UNKNOWN);
    _cleanup_text_ struct text out = {0};

    report.job.run_id = NULL;
    report.job.job_id = NULL;
    report.job.started_at = REAL_UNKNOWN;
    assert_string_equal(format(&report, &plain, &out), "-: unknown\n"
                                                       "  started    -\n"
                                                       "  memory     -\n"
                                                       "  CPU        -\n"
                                                       "  wall       -\n"
                                                       "  processes  -\n");
}

static void test_lists(void **state _unused_)
{
    struct job_report report = make_report(OUTCOME_SUCCESS);
    struct tally shares[12], counts[1] = {{"read", 1234567}};
    struct tally seconds = {"read", 2.5}, errors = {"read", 12};
    struct gap gaps[25];
    struct anomaly anomaly;
    _cleanup_text_ struct text out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
        shares[i] = (struct tally){"futex", (double)i};
    shares[3] = (struct tally){"read", 40.25};
    report.job.profile.syscall_hotspots = (struct tally_list){shares, ARRAY_SIZE(shares)};
    report.job.profile.syscall_counts = (struct tally_list){counts, 1};
    report.job.profile.syscall_seconds = (struct tally_list){&seconds, 1};
    report.job.profile.syscall_errors = (struct tally_list){&errors, 1};
    report.job.profile.syscall_source = SYSCALLS_BPF;
    report.job.profile.exactness.syscall_hotspots = EXACT;
    for (size_t i = 0; i < ARRAY_SIZE(gaps); i++)
        gaps[i] = (struct gap){GAP_MISSED_TICKS, START + (double)i, 2, INT_UNKNOWN, NULL};
    gaps[24] = (struct gap){GAP_NOT_STORED, START + 90000, 5, 3, "the disk is full"};
    gaps[23] = (struct gap){GAP_CLOCK_STEP, START + 24, -3600, INT_UNKNOWN, NULL};
    gaps[22] = (struct gap){GAP_EVENTS, START + 23, REAL_UNKNOWN, 1700, NULL};
    gaps[21] = (struct gap){GAP_SUSPEND, START + 22, 7200, INT_UNKNOWN, NULL};
    report.gaps = (struct gap_list){gaps, ARRAY_SIZE(gaps)};
    record_init(&anomaly_record, &anomaly);
    anomaly.timestamp = START + 5;
    anomaly.anomaly_type = "memory_spike";
    anomaly.severity = SEVERITY_HIGH;
    anomaly.pid = 4242;
    anomaly.description = "800 MB, 2.0 times as much as 30 s before";
    anomaly.cleared_at = START + 17;
    report.anomalies = (struct anomaly_list){&anomaly, 1};
    format(&report, &plain, &out);

    const char *calls = strstr(out.bytes, "\nsystem calls (every one counted)\n"
                                          "  SYSCALL    TIME    WALL      CALLS  FAILED\n"
                                          "  read     40.2 %  2.50 s  1,234,567      12\n"
                                          "  futex    11.0 %       -          -       -\n");
    assert_non_null(calls);
    assert_null(strstr(out.bytes, "  futex     1.0 %")); /* the eleventh */
    assert_non_null(strstr(out.bytes,
                           "\nanomalies\n"
                           "          TIME  SEVERITY  ANOMALY        LASTED   PID  WHAT\n"
                           "  14:03:27.000  high      memory_spike  12.00 s  4242  "
                           "800 MB, 2.0 times as much as 30 s before\n"));
    assert_non_null(strstr(out.bytes, "\ngaps (the latest; 5 more)\n"));
    assert_non_null(strstr(out.bytes, "14:03:42.000  2.00 s not sampled: sonde was late"));
    assert_non_null(strstr(out.bytes, "2 h 00 m not sampled: the machine slept"));
    assert_non_null(strstr(out.bytes, "1,700 events not kept one by one"));
    assert_non_null(strstr(out.bytes, "the clock was set back by 1 h 00 m"));
    assert_non_null(strstr(out.bytes, "Jul 15 15:03:22.000  3 snapshots not stored over "
                                      "5.00 s"));
    assert_non_null(strstr(out.bytes, "the disk is full\n"));
}

#define EARLIER_MAX 16

/* So many that went well, the i-th took 10 + i/10 s and 50 MB; the first failed, and so on. */
static struct job_list earlier_jobs(size_t count, const char *own_run_id)
{
    static struct job jobs[EARLIER_MAX];
    static char ids[EARLIER_MAX][8];

    for (size_t i = 0; i < count; i++) {
        record_init(&job_record, &jobs[i]);
        snprintf(ids[i], sizeof(ids[i]), "run-%zu", i);
        jobs[i].run_id = ids[i];
        jobs[i].outcome = OUTCOME_SUCCESS;
        jobs[i].profile.wall_seconds = 10 + (double)i / 10;
        jobs[i].profile.peak_rss_mb = 50;
        jobs[i].profile.read_bytes = 4096;
    }
    jobs[count].run_id = own_run_id; /* itself, one that failed, and one that goes on */
    jobs[count].outcome = OUTCOME_SUCCESS;
    jobs[count + 1] = jobs[0];
    jobs[count + 1].run_id = "failed";
    jobs[count + 1].outcome = OUTCOME_FAILURE;
    jobs[count + 1].profile.wall_seconds = 10000;
    jobs[count + 2] = jobs[0];
    jobs[count + 2].run_id = "running";
    jobs[count + 2].outcome = OUTCOME_RUNNING;
    return (struct job_list){jobs, count + 3};
}

static const struct run_difference *find_difference(const struct earlier_runs *earlier,
                                                    const char *figure)
{
    for (size_t i = 0; i < earlier->figures.count; i++)
        if (strcmp(earlier->figures.items[i].figure, figure) == 0)
            return &earlier->figures.items[i];
    return NULL;
}

static void test_earlier_runs(void **state _unused_)
{
    struct job_report report = make_full_report();
    _cleanup_text_ struct text out = {0};
    struct arena arena = {0};
    struct earlier_runs *earlier = &report.earlier_runs;

    report.job.profile.read_bytes = 100000; /* many times as much, and still nothing */
    struct job_list list = earlier_jobs(7, report.job.run_id);
    assert_int_equal(earlier_runs_make(&list, &report.job, &arena, earlier), 0);
    assert_int_equal(earlier->runs, 8);
    assert_int_equal(earlier->failures, 1);
    const struct run_difference *wall = find_difference(earlier, "wall_seconds");
    assert_true(wall->value == 12.3 && fabs(wall->median - 10.3) < 1e-9);
    assert_true(fabs(wall->robust_z - 2.0 / (0.2 * 1.4826)) < 1e-6);
    assert_int_equal(wall->sample_size, 7);
    assert_int_equal(wall->unusual, TRUTH_YES);
    /* All of them the same: there is no z, but it is unusual all the same. */
    const struct run_difference *memory = find_difference(earlier, "peak_rss_mb");
    assert_false(real_is_known(memory->robust_z));
    assert_int_equal(memory->unusual, TRUTH_YES);
    assert_int_equal(find_difference(earlier, "read_bytes")->unusual, TRUTH_NO);
    assert_null(find_difference(earlier, "total_cpu_seconds")); /* nobody knows it */
    assert_non_null(strstr(format(&report, &plain, &out),
                           "\nagainst earlier runs of its type that succeeded (of 8, 1 failed)\n"
                           "          THIS RUN   MEDIAN  DIFFERENCE     Z  RUNS  VERDICT\n"
                           "  memory  812.4 MB  50.0 MB    16 times     -     7  unusual\n"
                           "  wall     12.30 s  10.30 s       +19 %  +6.7     7  unusual\n"
                           "  read      0.1 MB   0.0 MB    24 times     -     7  usual\n"));

    /* Far out, but by less than a tenth. */
    report.job.profile.wall_seconds = 11.3;
    assert_int_equal(earlier_runs_make(&list, &report.job, &arena, earlier), 0);
    wall = find_difference(earlier, "wall_seconds");
    assert_true(wall->robust_z > 3.3);
    assert_int_equal(wall->unusual, TRUTH_NO);
    arena_done(&arena);
}

/* Of a few runs nothing is said, nor of one that goes on. */
static void test_too_few_earlier_runs(void **state _unused_)
{
    struct job_report report = make_full_report();
    _cleanup_text_ struct text out = {0};
    struct arena arena = {0};

    struct job_list list = earlier_jobs(4, report.job.run_id);
    assert_int_equal(earlier_runs_make(&list, &report.job, &arena, &report.earlier_runs), 0);
    assert_int_equal(report.earlier_runs.runs, 5);
    assert_int_equal(report.earlier_runs.figures.count, 0);
    assert_null(strstr(format(&report, &plain, &out), "earlier runs"));

    list = earlier_jobs(5, report.job.run_id);
    assert_int_equal(earlier_runs_make(&list, &report.job, &arena, &report.earlier_runs), 0);
    assert_true(report.earlier_runs.figures.count > 0);
    assert_non_null(strstr(format(&report, &plain, &out), "earlier runs"));

    report.job.outcome = OUTCOME_RUNNING;
    assert_int_equal(earlier_runs_make(&list, &report.job, &arena, &report.earlier_runs), 0);
    assert_int_equal(report.earlier_runs.figures.count, 0);
    assert_int_equal(
        earlier_runs_make(&(struct job_list){0}, &report.job, &arena, &report.earlier_runs), 0);
    assert_int_equal(report.earlier_runs.runs, 0);
    arena_done(&arena);
}

#define HOSTILE "x\033[2J\n\r\b\u202e\x9b \xff"

static void assert_harmless(const struct text *out)
{
    for (size_t i = 0; i < out->length; i++) {
        unsigned char byte = (unsigned char)out->bytes[i];
        assert_true(byte == '\n' || (byte >= 0x20 && byte != 0x7F));
    }
    assert_null(strstr(out->bytes, "\u202e"));
    assert_null(strstr(out->bytes, "\xff"));
}

static void test_hostile_texts(void **state _unused_)
{
    struct job_report report = make_report(OUTCOME_FAILURE);
    struct process_event event = make_event(EVENT_KILL, 1, 5, HOSTILE);
    struct sheet sheet;
    struct anomaly anomaly;
    struct gap gap = {GAP_NOT_STORED, START, 1, 1, HOSTILE};
    struct tally tally = {HOSTILE, 1};
    _cleanup_text_ struct text out = {0};

    record_init(&sheet_record, &sheet);
    record_init(&anomaly_record, &anomaly);
    report.job.job_id = report.job.job_type = report.job.command = report.job.cwd = HOSTILE;
    report.job.host = report.job.cause = report.job.parent_run_id = HOSTILE;
    report.job.profile.collector = HOSTILE;
    report.job.profile.num_samples = 1;
    event.sender_command = event.details = event.job_id = HOSTILE;
    event.signal_num = 9;
    sheet.name = HOSTILE;
    anomaly.anomaly_type = anomaly.description = HOSTILE;
    struct job within = report.job;
    report.events = (struct process_event_list){&event, 1};
    report.sheets = (struct sheet_list){&sheet, 1};
    report.anomalies = (struct anomaly_list){&anomaly, 1};
    report.gaps = (struct gap_list){&gap, 1};
    report.job.profile.syscall_hotspots = (struct tally_list){&tally, 1};
    report.runs_within = (struct job_list){&within, 1};
    struct process_event chain[] = {event, event}, storm = make_folded(EVENT_KILL, HOSTILE, 5);
    report.job.chain = (struct process_event_list){chain, 2};
    report.storms = (struct process_event_list){&storm, 1};
    assert_harmless((format(&report, &plain, &out), &out));
    assert_non_null(strstr(out.bytes, "x\\x1b[2J\\n\\r\\b\\u202e"));
    for (size_t columns = 0; columns < 200; columns += 7)
        assert_harmless((format(&report, &(struct report_style){.columns = columns}, &out), &out));
}

/* What a damaged database may hold. */
static void test_absurd_figures(void **state _unused_)
{
    static const double absurd[] = {-1,       0,         1e300,          -1e300,
                                    INFINITY, -INFINITY, 253402300799.0, 1e18};
    _cleanup_text_ struct text out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(absurd); i++) {
        struct job_report report = make_full_report();
        struct gap gap = {GAP_CLOCK_STEP, absurd[i], absurd[i], INT64_MAX, NULL};
        struct tally tally = {"read", absurd[i]};
        double *const reals[] = {&report.as_of,
                                 &report.job.started_at,
                                 &report.job.ended_at,
                                 &report.job.profile.wall_seconds,
                                 &report.job.profile.total_cpu_seconds,
                                 &report.job.profile.peak_rss_mb,
                                 &report.job.profile.gap_seconds};
        for (size_t j = 0; j < ARRAY_SIZE(reals); j++)
            *reals[j] = absurd[i];
        report.job.signal_num = INT64_MAX;
        report.job.exit_code = INT64_MIN + 1;
        report.job.profile.process_spawn_count = -5;
        report.gaps = (struct gap_list){&gap, 1};
        report.job.profile.syscall_hotspots = report.job.profile.syscall_counts =
            (struct tally_list){&tally, 1};
        format(&report, &coloured, &out);
        assert_true(out.length < 4096);
    }
}

static void test_colours(void **state _unused_)
{
    struct job_report report = make_report(OUTCOME_FAILURE);
    struct process_event event = make_event(EVENT_KILL, 1, 5, "sleep 5");
    _cleanup_text_ struct text out = {0};

    report.events = (struct process_event_list){&event, 1};
    format(&report, &coloured, &out);
    assert_non_null(strstr(out.bytes, "\033[1mmake-7f3a\033[0m: \033[31mfailure\033[0m\n"));
    assert_non_null(strstr(out.bytes, "\033[31mkill\033[0m"));
    assert_null(strchr(format(&report, &plain, &out), '\033'));
}

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
        "peak_rss_mb", "total_cpu_seconds", "process_spawn_count", "unique_pid_count",
        "syscall_hotspots", "sheet_metrics", "peak_total_mb", "peak_unique_mb", "wall_seconds",
        "user_seconds", "system_seconds", "read_bytes", "write_bytes", "syscall_counts",
        "exactness",
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
    report.use.system_cpu_percent = (struct span){3, 45.25, 398};
    report.use.system_memory_used_mb = (struct span){1000, 2048, 4096};
    report.use.load_avg_1 = (struct span){0.1, 1.5, REAL_UNKNOWN};
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
        "  zombies    2 seen at once\n"
        "\n"
        "                MIN     MEAN      MAX        OF\n"
        "  CPU         3.0 %   45.2 %  398.0 %   400.0 %\n"
        "  memory  1000.0 MB  2.00 GB  4.00 GB  16.00 GB\n"
        "  load         0.10     1.50        -      4.00\n"
        "\njobs\n"
        "  JOB        OUTCOME   STARTED     WALL        CPU    MEMORY  TYPE\n"
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
    profile.exactness.peak_rss_mb = LOWER_BOUND;
    profile.exactness.peak_total_mb = SAMPLED;
    const struct run_figures figures = run_figures_of_profile(&profile);
    style_label("memory", &out);
    run_figures_format_memory(&figures, &out);
    text_append_char(&out, '\n');
    assert_non_null(strstr(text_string(&out), "≥ 1023.9 MB of one process, ~ 1023.9 MB in all"));
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
    jobs[2].profile.total_cpu_seconds = REAL_UNKNOWN;
    job_table_format(&list, START, 0, &(struct report_style){.columns = 80}, &out);
    assert_string_equal(
        out.bytes,
        "JOB                OUTCOME                 STARTED     WALL        CPU    MEMORY\n"
        "make-7f3a          failure (SIGTERM)      14:03:22  12.30 s  ≥ 23.40 s  812.4 MB\n"
        "make-7f3a          failure (2)        Jul 13 14:03  12.30 s  ≥ 23.40 s  812.4 MB\n"
        "a-name-that-is-l…  running                14:03:22  12.30 s          -  812.4 MB\n");
    text_reset(&out);
    jobs[1].uid = jobs[0].uid + 1; /* whose they are is shown where that differs */
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
    };
    const struct process_event_list list = {events, ARRAY_SIZE(events)};
    const struct event_table_options options = {.day = START};
    _cleanup_text_ struct text out = {0};

    events[0].ppid = 9;
    events[0].job_id = "make-7f3a";
    events[2].signal_num = 2;
    events[2].sender_pid = 0;
    events[3].details = "Sheet 3 completed";
    events[3].exit_code = 0;
    events[4].count = 19800;
    events[4].first_timestamp = START + 1;
    events[4].exit_code = 0;
    events[4].cpu_seconds = 12.3;
    event_table_format(&list, &options, &plain, &out);
    assert_string_equal(
        out.bytes,
        "               TIME  EVENT   PID  JOB        WHAT                                         "
        " COMMAND\n"
        "       14:03:22.000  spawn    10  make-7f3a  by pid 9                                     "
        " make\n"
        "       14:03:22.001  exec     10  -          -                                            "
        " make -j8\n"
        "       14:03:22.002  signal   10  -          SIGINT from the kernel                       "
        " make -j8\n"
        "Jul 13 14:03:22.000  exit      -  -          status 0, Sheet 3 completed                  "
        " -\n"
        "       14:03:26.200  exit      -  -          ×19,800 within 3.20 s, status 0, CPU 12.30 s "
        " true\n");
}

/* ---- the summary ---- */

static void test_summary(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};
    struct left_process left[] = {{4242, "sleep\033[1m 100"}};
    struct run_summary summary;

    record_init(&run_summary_record, &summary);
    summary.job_id = "make-7f3a";
    summary.outcome = OUTCOME_FAILURE;
    summary.cause = "exit status 2";
    summary.wall_seconds = 12.3;
    summary.cpu_seconds = 23.4;
    summary.user_seconds = 20.1;
    summary.system_seconds = 3.3;
    summary.peak_rss_mb = 812.4;
    summary.peak_total_mb = 1945.6;
    summary.peak_unique_mb = 1900;
    summary.processes = 1501;
    summary.exactness.cpu_seconds = LOWER_BOUND;
    summary.exactness.peak_rss_mb = EXACT;
    summary.exactness.processes = EXACT;
    summary.exactness.peak_total_mb = SAMPLED;
    summary.left_running = (struct left_process_list){left, 1};
    short_summary_format(&summary, NULL, &out);
    assert_string_equal(text_string(&out),
                        "sonde: make-7f3a: failure, exit status 2\n"
                        "  wall       12.30 s\n"
                        "  CPU        ≥ 23.40 s (user 20.10 s, system 3.30 s), 1.90 cores\n"
                        "  memory     812.4 MB of one process, ~ 1.90 GB in all "
                        "(1.86 GB unshared)\n"
                        "  processes  1,501\n"
                        "  left       pid 4242 still running: sleep\\x1b[1m 100\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_success),
        cmocka_unit_test(test_killed_with_sender),
        cmocka_unit_test(test_cause),
        cmocka_unit_test(test_chain_and_last_memory),
        cmocka_unit_test(test_storms),
        cmocka_unit_test(test_running),
        cmocka_unit_test(test_unknown_everywhere),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_earlier_runs),
        cmocka_unit_test(test_too_few_earlier_runs),
        cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_absurd_figures),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_json_has_the_promised_names),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_machine_json),
        cmocka_unit_test(test_memory_fits_the_terminal),
        cmocka_unit_test(test_jobs_fit_the_terminal),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_summary),
    };
    setenv("TZ", "UTC0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
