/* A run's report as text: outcome and cause, figures, events, and the comparison with earlier runs.
 * */
#include "report-world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "report/earlier-runs.h"

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
                        "  memory     812.4 MB largest process\n"
                        "             ~ 1.90 GB all processes, ≥ 1.62 to 1.86 GB together\n"
                        "  CPU        ≥ 23.40 s (user ≥ 20.10 s, system ≥ 3.30 s), 1.90 cores, "
                        "peak 3.98 cores\n"
                        "  wall       12.30 s\n"
                        "  processes  1,501 started, 1,501 ended\n"
                        "  I/O        ≥ 3.0 MB read\n"
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
    report.job.profile.left_running_count = 3;
    format(&report, &plain, &out);

    const char *beginning = "make-7f3a: failure, killed by SIGKILL\n"
                            "  OOM        pid 4243 killed by the kernel for memory (OOM) at "
                            "14:03:34.200: python worker.py\n"
                            "  command    ";
    assert_int_equal(strncmp(out.bytes, beginning, strlen(beginning)), 0);
    assert_non_null(strstr(out.bytes,
                           "  processes  1,501 started, 1,501 ended, 3 left running\n"
                           "  failed     4 with a nonzero exit status, 1 killed by a signal\n"
                           "  OOM kills  1 killed by the kernel for memory (OOM)\n"
                           "  signals    1 that did not end a process\n"
                           "  zombies    2 at one time at most\n"));
    assert_non_null(strstr(
        out.bytes,
        "\nsignals, kills and failures (the latest; 3 more)\n"
        "          TIME  EVENT    PID  DETAILS                             COMMAND\n"
        "  14:03:23.000  signal  4242  SIGUSR1                             python train.py\n"
        "  14:03:24.500  exit    4250  status 1, CPU 250 ms, 12.0 MB peak  sh -c false\n"
        "  14:03:34.200  oom     4243  -                                   python worker.py\n"
        "  14:03:34.250  kill    4242  SIGKILL from pid 812 (timeout)      python train.py\n"));
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
         "make-7f3a: unknown, because its monitor died first\n"},
        {OUTCOME_SUCCESS, NULL, 0, INT_UNKNOWN, "make-7f3a: success\n"},
        {OUTCOME_NONE, NULL, INT_UNKNOWN, INT_UNKNOWN, "make-7f3a: -\n"},
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

static void test_io_without_small_parts(void **state _unused_)
{
    static const struct {
        int64_t read, written;
        const char *line; /* NULL: none */
    } cases[] = {
        {3 << 20, 2 << 20, "\n  I/O        ≥ 3.0 MB read, ≥ 2.0 MB written\n"},
        {3 << 20, 1000, "\n  I/O        ≥ 3.0 MB read\n"},
        {52000, 2 << 20, "\n  I/O        ≥ 2.0 MB written\n"}, /* 0.0 MB when rounded */
        {INT_UNKNOWN, 2 << 20, "\n  I/O        ≥ 2.0 MB written\n"},
        {1000, INT_UNKNOWN, NULL},
        {0, 0, NULL},
    };
    _cleanup_text_ struct text out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct job_report report = make_report(OUTCOME_SUCCESS);
        report.job.profile.read_bytes = cases[i].read;
        report.job.profile.write_bytes = cases[i].written;
        const char *text = format(&report, &plain, &out);
        if (cases[i].line)
            assert_non_null(strstr(text, cases[i].line));
        else
            assert_null(strstr(text, "I/O"));
    }
}

/* A run does not record why there was no kernel collector, so the hint is true for all users. */
static const char no_collector_hint[] =
    " (to see it: run as root, or with a daemon; for short runs of root, use --exact)\n";

static void test_unknown_sender(void **state _unused_)
{
    struct job_report report = make_report(OUTCOME_FAILURE);
    struct process_event chain[] = {
        make_event(EVENT_KILL, 3, 12, "/usr/lib/cc1 a.c"),
        make_event(EVENT_EXIT, 3.5, 10, "make"),
    };
    _cleanup_text_ struct text out = {0};

    chain[0].signal_num = 9;
    chain[1].exit_code = 2;
    report.job.chain = (struct process_event_list){chain, 1};
    report.job.cause = "killed by SIGKILL";
    report.job.profile.collector = "procfs";
    const char *line = "make-7f3a: failure, killed by SIGKILL, sender unknown";
    assert_int_equal(strncmp(format(&report, &plain, &out), line, strlen(line)), 0);
    assert_int_equal(
        strncmp(out.bytes + strlen(line), no_collector_hint, strlen(no_collector_hint)), 0);
    report.job.profile.collector = "bpf"; /* it saw no sender either */
    format(&report, &plain, &out);
    assert_int_equal(strncmp(out.bytes + strlen(line), "\n", 1), 0);
    report.job.chain.count = 2;
    report.job.cause = "exit status 2: cc1 (12) killed by SIGKILL → make exited 2";
    assert_non_null(
        strstr(format(&report, &plain, &out), "→ make exited 2; sender of SIGKILL unknown\n"));
    report.job.chain.count = 1;
    report.job.cause = "killed by SIGTRAP"; /* a fault has no sender */
    chain[0].signal_num = 5;
    assert_null(strstr(format(&report, &plain, &out), "sender"));
}

/* The reason is printed once for a chain. */
static void test_unknown_name(void **state _unused_)
{
    static const char hint[] = "→ make exited 2; pid 12 ended before its name was read";
    struct job_report report = make_report(OUTCOME_FAILURE);
    struct process_event chain[] = {
        make_event(EVENT_EXIT, 3, 12, NULL),
        make_event(EVENT_EXIT, 3.2, 11, NULL),
        make_event(EVENT_EXIT, 3.5, 10, "make"),
    };
    _cleanup_text_ struct text out = {0};

    report.job.chain = (struct process_event_list){chain, ARRAY_SIZE(chain)};
    report.job.profile.collector = "bpf";
    report.job.cause = "exit status 2: pid 12 exited 1 → pid 11 exited 1 → make exited 2";
    const char *found = strstr(format(&report, &plain, &out), hint);
    static const char late_hint[] = " (to see it: as root, use --exact)\n"; /* loaded too late */
    assert_non_null(found);
    assert_int_equal(strncmp(found + strlen(hint), late_hint, strlen(late_hint)), 0);
    report.job.profile.collector = "procfs";
    found = strstr(format(&report, &plain, &out), hint);
    assert_non_null(found);
    assert_int_equal(strncmp(found + strlen(hint), no_collector_hint, strlen(no_collector_hint)),
                     0);
    report.job.cause = "exit status 2: given by a scheduler";
    assert_null(strstr(format(&report, &plain, &out), "name"));
    chain[0].command = chain[1].command = "cc1";
    report.job.cause = "exit status 2: cc1 (12) exited 1 → cc1 exited 1 → make exited 2";
    assert_null(strstr(format(&report, &plain, &out), "name"));
}

/* ---- failures ---- */

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
    report.job.cause = "the linker failed"; /* from a scheduler: it does not contain the chain */
    report.job.chain = (struct process_event_list){chain, 2};
    report.last_memory = (struct memory_point_list){points, 2};
    const char *text = format(&report, &plain, &out);
    assert_non_null(strstr(text, "make-7f3a: failure, the linker failed\n"));
    assert_non_null(
        strstr(text, "chain of failures (first failure first)\n"
                     "          TIME  EVENT  PID  DETAILS                     COMMAND\n"
                     "  14:03:25.000  kill    12  SIGKILL from pid 77 (kill)  /usr/lib/cc1 a.c\n"
                     "  14:03:25.500  exit    10  status 2                    make\n"));
    assert_non_null(strstr(text, "memory in the last 30 s (all processes)\n"
                                 "  BEFORE THE END    MEMORY  PROCESSES\n"
                                 "          2.00 s  120.2 MB          3\n"
                                 "          100 ms   2.00 GB          4\n"));
    /* a chain of one process is not printed as a table */
    report.job.chain.count = 1;
    report.last_memory.count = 0;
    text = format(&report, &plain, &out);
    assert_null(strstr(text, "chain of failures"));
    assert_null(strstr(text, "memory in the last 30 s"));
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
    folded[1].cpu_seconds = 0.5; /* the others are unknown */
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
    sheets[0].processes = 61;
    sheets[0].starts = 2;
    sheets[0].exactness = (struct sheet_exactness){LOWER_BOUND, EXACT, EXACT};
    sheets[1].sheet_num = 2;
    sheets[1].started_at = START + 90;
    sheets[1].outcome = OUTCOME_RUNNING;
    report.sheets = (struct sheet_list){sheets, 2};
    report.job.total_sheets = 3;
    report.job.profile.wall_seconds = 600;
    report.job.profile.peak_rss_mb = 300;
    report.job.profile.processes = 7;
    report.earlier_runs.runs = 5; /* nothing to compare with yet */
    format(&report, &plain, &out);
    assert_int_equal(
        strncmp(out.bytes, "make-7f3a: running, figures as of 2026-07-14 14:13:22 +0000\n", 59), 0);
    assert_null(strstr(out.bytes, "ended  "));
    assert_null(strstr(out.bytes, "earlier successful runs"));
    assert_non_null(strstr(out.bytes, "  memory     ≥ 300.0 MB largest process\n"
                                      "  CPU        -\n"
                                      "  wall       10 m 00 s\n"
                                      "  processes  ≥ 7 started\n"));
    assert_non_null(strstr(out.bytes,
                           "\nsteps (2 of 3)\n"
                           "  STEP  NAME     OUTCOME      WALL       CPU    PEAK CPU     LARGEST"
                           "  PROCESSES  STARTS\n"
                           "     1  compile  success  1 m 30 s  5 m 00 s  3.90 cores  ≥ 300.0 MB"
                           "         61       2\n"
                           "     2  -        running  8 m 30 s         -           -           -"
                           "          -       -\n"));
}

/* Columns of I/O are there if a step has some. The narrow terminal has no room for them. */
static void test_io_of_steps(void **state _unused_)
{
    struct job_report report = make_report(OUTCOME_SUCCESS);
    const struct report_style narrow = {.columns = 64};
    struct sheet sheets[3];
    _cleanup_text_ struct text out = {0};

    for (int i = 0; i < 3; i++) {
        record_init(&sheet_record, &sheets[i]);
        sheets[i].sheet_num = i + 1;
        sheets[i].started_at = START;
        sheets[i].ended_at = START + 90;
        sheets[i].outcome = OUTCOME_SUCCESS;
        sheets[i].read_bytes = sheets[i].write_bytes = 1000;
        sheets[i].exactness.read_bytes = sheets[i].exactness.write_bytes = LOWER_BOUND;
    }
    report.sheets = (struct sheet_list){sheets, 3};
    format(&report, &plain, &out);
    assert_null(strstr(out.bytes, "READ"));
    assert_null(strstr(out.bytes, "WRITTEN"));

    sheets[0].exactness.write_bytes = EXACT;
    sheets[1].write_bytes = 3 << 20;
    text_reset(&out);
    format(&report, &plain, &out);
    assert_non_null(strstr(out.bytes,
                           "  STEP  OUTCOME      WALL  CPU  PEAK CPU  LARGEST   WRITTEN\n"
                           "     1  success  1 m 30 s    -         -        -    0.0 MB\n"
                           "     2  success  1 m 30 s    -         -        -  ≥ 3.0 MB\n"
                           "     3  success  1 m 30 s    -         -        -         -\n"));

    sheets[0].read_bytes = 5 << 20;
    sheets[0].exactness.read_bytes = EXACT;
    text_reset(&out);
    format(&report, &plain, &out);
    assert_non_null(strstr(out.bytes, "  LARGEST    READ   WRITTEN\n"));
    assert_non_null(strstr(out.bytes, "        -  5.0 MB    0.0 MB\n"));
    text_reset(&out);
    format(&report, &narrow, &out);
    assert_null(strstr(out.bytes, "READ"));
}

/* An unknown figure is "-", never 0; a line without any known figure is omitted. */
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
    struct tally shares[13], counts[1] = {{"read", 1234567}};
    struct tally seconds = {"read", 2.5}, errors = {"read", 12};
    struct gap gaps[25];
    struct anomaly anomaly;
    _cleanup_text_ struct text out = {0};

    for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
        shares[i] = (struct tally){"openat", (double)i};
    shares[2] = (struct tally){"futex", 20}; /* waits: the others have 80 % together */
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
    gaps[19] = (struct gap){GAP_EVENTS, START + 19, 2, INT_UNKNOWN, NULL};
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

    const char *calls =
        strstr(out.bytes, "\nsystem calls (every call counted; without calls that wait)\n"
                          "  SYSCALL    TIME    WALL      CALLS  FAILED\n"
                          "  read     50.3 %  2.50 s  1,234,567      12\n"
                          "  openat   15.0 %       -          -       -\n");
    assert_non_null(calls);
    assert_null(strstr(calls, "futex"));
    assert_null(strstr(calls, "  openat    1.")); /* the eleventh */
    assert_non_null(strstr(out.bytes,
                           "\nanomalies\n"
                           "          TIME  SEVERITY  ANOMALY        LASTED   PID  DETAILS\n"
                           "  14:03:27.000  high      memory_spike  12.00 s  4242  "
                           "800 MB, 2.0 times as much as 30 s before\n"));
    assert_non_null(strstr(out.bytes, "\ngaps (the latest; 5 more)\n"));
    assert_non_null(strstr(out.bytes, "14:03:42.000  2.00 s not sampled: sonde was late"));
    assert_non_null(strstr(out.bytes, "2 h 00 m not sampled: the machine was suspended"));
    assert_non_null(strstr(out.bytes, "  1,700 events lost "));
    assert_non_null(strstr(out.bytes, "  events lost, their number is unknown "));
    assert_non_null(strstr(out.bytes, "the clock was set back by 1 h 00 m"));
    assert_non_null(strstr(out.bytes, "Jul 15 15:03:22.000  3 snapshots not stored over "
                                      "5.00 s"));
    assert_non_null(strstr(out.bytes, "the disk is full\n"));
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

/* ---- against earlier runs ---- */

#define EARLIER_MAX 16

/* `count` successful runs, the i-th with 10 + i/10 s and 50 MB; then runs that must not be
 * compared. */
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
    jobs[count].run_id = own_run_id; /* the run itself, a failed one, and a running one */
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

    report.job.profile.read_bytes = 100000; /* many times as much, but too little to report */
    struct job_list list = earlier_jobs(7, report.job.run_id);
    assert_int_equal(earlier_runs_make(&list, &report.job, &arena, earlier), 0);
    assert_int_equal(earlier->runs, 8);
    assert_int_equal(earlier->failures, 1);
    const struct run_difference *wall = find_difference(earlier, "wall_seconds");
    assert_true(wall->value == 12.3 && fabs(wall->median - 10.3) < 1e-9);
    assert_true(fabs(wall->robust_z - 2.0 / (0.2 * 1.4826)) < 1e-6);
    assert_int_equal(wall->sample_size, 7);
    assert_int_equal(wall->unusual, TRUTH_YES);
    /* All earlier values are equal: there is no z, but the difference is reported. */
    const struct run_difference *memory = find_difference(earlier, "peak_rss_mb");
    assert_false(real_is_known(memory->robust_z));
    assert_int_equal(memory->unusual, TRUTH_YES);
    assert_int_equal(find_difference(earlier, "read_bytes")->unusual, TRUTH_NO);
    assert_null(find_difference(earlier, "cpu_seconds")); /* it is unknown */
    assert_non_null(
        strstr(format(&report, &plain, &out),
               "\ncompared with 7 earlier successful runs of this type; 1 more failed\n"
               "                   THIS RUN   MEDIAN  DIFFERENCE     Z  RUNS  VERDICT\n"
               "  largest process  812.4 MB  50.0 MB    16 times     -     7  unusual\n"
               "  wall              12.30 s  10.30 s       +19 %  +6.7     7  unusual\n"
               "  read             ≥ 0.1 MB   0.0 MB    24 times     -     7  usual\n"));

    /* A large z, but a difference of less than a tenth. */
    report.job.profile.wall_seconds = 11.3;
    assert_int_equal(earlier_runs_make(&list, &report.job, &arena, earlier), 0);
    wall = find_difference(earlier, "wall_seconds");
    assert_true(wall->robust_z > 3.3);
    assert_int_equal(wall->unusual, TRUTH_NO);

    /* Counts that a daemon of another version omits, or that contradict each other. */
    earlier->failures = INT_UNKNOWN;
    assert_non_null(strstr(format(&report, &plain, &out),
                           "\ncompared with earlier successful runs of this type\n"));
    earlier->runs = INT_UNKNOWN + 1;
    earlier->failures = INT64_MAX;
    assert_non_null(strstr(format(&report, &plain, &out),
                           "\ncompared with earlier successful runs of this type; "));
    arena_done(&arena);
}

/* There is no comparison with too few runs, and none of a run that has not ended. */
static void test_too_few_earlier_runs(void **state _unused_)
{
    struct job_report report = make_full_report();
    _cleanup_text_ struct text out = {0};
    struct arena arena = {0};

    struct job_list list = earlier_jobs(4, report.job.run_id);
    assert_int_equal(earlier_runs_make(&list, &report.job, &arena, &report.earlier_runs), 0);
    assert_int_equal(report.earlier_runs.runs, 5);
    assert_int_equal(report.earlier_runs.figures.count, 0);
    assert_null(strstr(format(&report, &plain, &out), "earlier successful runs"));

    list = earlier_jobs(5, report.job.run_id);
    assert_int_equal(earlier_runs_make(&list, &report.job, &arena, &report.earlier_runs), 0);
    assert_true(report.earlier_runs.figures.count > 0);
    assert_non_null(strstr(format(&report, &plain, &out), "earlier successful runs"));

    report.job.outcome = OUTCOME_RUNNING;
    assert_int_equal(earlier_runs_make(&list, &report.job, &arena, &report.earlier_runs), 0);
    assert_int_equal(report.earlier_runs.figures.count, 0);
    assert_int_equal(
        earlier_runs_make(&(struct job_list){0}, &report.job, &arena, &report.earlier_runs), 0);
    assert_int_equal(report.earlier_runs.runs, 0);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_success),
        cmocka_unit_test(test_killed_with_sender),
        cmocka_unit_test(test_cause),
        cmocka_unit_test(test_io_without_small_parts),
        cmocka_unit_test(test_unknown_sender),
        cmocka_unit_test(test_unknown_name),
        cmocka_unit_test(test_chain_and_last_memory),
        cmocka_unit_test(test_storms),
        cmocka_unit_test(test_running),
        cmocka_unit_test(test_io_of_steps),
        cmocka_unit_test(test_unknown_everywhere),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_earlier_runs),
        cmocka_unit_test(test_too_few_earlier_runs),
        cmocka_unit_test(test_colours),
    };
    return cmocka_run_group_tests(tests, report_world_set_up, NULL);
}
