#include "unit.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "cli/follow.h"
#include "detect/admission.h"
#include "report/process-table.h"

/* ---- the table ---- */

static struct process_metric make(int64_t pid, int64_t ppid, double cpu, const char *command)
{
    struct process_metric process;

    record_init(&process_metric_record, &process);
    process.pid = pid;
    process.ppid = ppid;
    process.start_ticks = (uint64_t)pid;
    process.cpu_percent = cpu;
    process.command = command;
    return process;
}

static void format(struct process_metric *processes, size_t count,
                   struct process_table_options table_options, struct text *out)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    snapshot->processes = (struct process_list){.items = processes, .count = count};
    assert_int_equal(process_table_format(snapshot, &table_options, out), 0);
}

static void test_table_by_use(void **state _unused_)
{
    struct process_metric processes[] = {make(1, 0, 0, "idle"), make(2, 1, NAN, "unknown"),
                                         make(3, 1, 50, "busy\033[2J\nname")};
    _cleanup_text_ struct text out = {0};

    format(processes, 3, (struct process_table_options){.columns = 120}, &out);
    const char *busy = strstr(out.bytes, "busy\\x1b[2J\\nname");
    const char *idle = strstr(out.bytes, "idle"), *unknown = strstr(out.bytes, "unknown");
    assert_true(busy && busy < idle && idle < unknown);
    assert_null(strchr(out.bytes, '\033'));
    assert_null(strstr(out.bytes, "JOB")); /* no job, no column */
}

static void test_table_as_tree(void **state _unused_)
{
    struct process_metric processes[] = {make(1, 0, 0, "root"), make(9, 1, 0, "second"),
                                         make(2, 1, 0, "first"), make(5, 2, 0, "below")};
    _cleanup_text_ struct text out = {0};

    format(processes, 4, (struct process_table_options){.columns = SIZE_MAX, .as_tree = true},
           &out);
    const char *root = strstr(out.bytes, " root\n"), *second = strstr(out.bytes, "   second\n");
    const char *first = strstr(out.bytes, "   first\n");
    const char *below = strstr(out.bytes, "     below\n");
    assert_true(root && root < second && second < first && first < below);
}

/* The indentation does not push the command off the screen. */
static void test_deep_tree_fits_the_terminal(void **state _unused_)
{
    enum { DEPTH = 40 };
    struct process_metric processes[DEPTH];

    for (int i = 0; i < DEPTH; i++)
        processes[i] = make(i + 1, i, 0, i == DEPTH - 1 ? "deepest --of=all" : "bash");
    for (size_t columns = 80; columns <= 120; columns += 40) {
        _cleanup_text_ struct text out = {0};
        format(processes, DEPTH,
               (struct process_table_options){.columns = columns, .as_tree = true}, &out);
        assert_non_null(strstr(out.bytes, "  deepest"));
        for (char *line = strtok(out.bytes, "\n"); line; line = strtok(NULL, "\n")) {
            size_t width = 0;
            for (const char *at = line; *at; at++)
                width += (*at & 0xC0) != 0x80; /* a column for each character: none is wide */
            assert_in_range(width, 1, columns);
        }
    }
}

static void test_cycle_of_parents(void **state _unused_)
{
    struct process_metric processes[] = {make(1, 2, 0, "a"), make(2, 1, 0, "b"),
                                         make(3, 3, 0, "c")};
    _cleanup_text_ struct text out = {0};

    processes[0].start_ticks = processes[1].start_ticks = 7;
    format(processes, 3, (struct process_table_options){.columns = 80, .as_tree = true}, &out);
    assert_non_null(strstr(out.bytes, " c\n"));
}

static void test_table_fits_the_terminal(void **state _unused_)
{
    struct process_metric processes[] = {make(1, 0, 0, "日本語の長い名前日本語の長い名前日本語")};
    _cleanup_text_ struct text out = {0};

    format(processes, 1, (struct process_table_options){.columns = 100}, &out);
    assert_non_null(strstr(out.bytes, "…\n"));
}

/* ---- admission without a daemon ---- */

static struct admission judge(double total_mb, double free_mb, double psi_full,
                              const struct resource_estimate *estimate)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    struct admission admission;

    snapshot->system_memory_total_mb = total_mb;
    snapshot->system_memory_available_mb = free_mb;
    snapshot->psi.memory.full_avg10 = psi_full;
    admission_without_daemon(snapshot, estimate, &admission);
    return admission;
}

static void test_free_memory_decides_alone(void **state _unused_)
{
    struct admission admission = judge(1000, 150, REAL_UNKNOWN, NULL);

    assert_true(admission.allowed);
    assert_true(admission.delay_seconds == 0);
    assert_string_equal(admission.reason, "no daemon: decided by free memory alone");
    admission = judge(1000, 149, 0, NULL);
    assert_false(admission.allowed);
    assert_int_equal(admission.level, PRESSURE_HIGH);
    assert_true(admission.delay_seconds == 30);
    assert_string_equal(admission.reason, "only 149.0 MB of 1000.0 MB of memory are free");
    admission = judge(1000, 49, 0, NULL);
    assert_int_equal(admission.level, PRESSURE_CRITICAL);
    assert_true(admission.delay_seconds == 60);

    assert_true(judge(1000, 900, 49.9, NULL).allowed);
    admission = judge(1000, 900, 50, NULL);
    assert_false(admission.allowed);
    assert_int_equal(admission.level, PRESSURE_CRITICAL);
}

static void test_unknown_memory_refuses(void **state _unused_)
{
    struct admission admission;

    admission_without_daemon(NULL, NULL, &admission);
    assert_false(admission.allowed);
    assert_int_equal(admission.level, PRESSURE_CRITICAL);
    assert_false(judge(REAL_UNKNOWN, 100, 0, NULL).allowed);
    assert_false(judge(100, REAL_UNKNOWN, 0, NULL).allowed);
}

static void test_a_type_that_needs_more_is_refused(void **state _unused_)
{
    struct resource_estimate estimate = {.estimated_peak_memory_mb = 600, .confidence = 0.5};

    assert_true(judge(1000, 600, 0, &estimate).allowed);
    struct admission admission = judge(1000, 599, 0, &estimate);
    assert_false(admission.allowed);
    assert_true(admission.delay_seconds == 10);
    assert_non_null(strstr(admission.reason, "need up to 600.0 MB of memory, and 599.0 MB"));
    estimate.confidence = 0.49;
    assert_true(judge(1000, 599, 0, &estimate).allowed);
    estimate.confidence = REAL_UNKNOWN;
    assert_true(judge(1000, 599, 0, &estimate).allowed);
}

/* ---- selection of events ---- */

static struct event_line make_event(int event_type, int64_t pid, const char *job_id,
                                    const char *run_id)
{
    struct event_line news = {.event = "process.exit",
                              .job_id = job_id,
                              .sheet_num = INT_UNKNOWN,
                              .kind = EVENT_KIND_PROCESS};

    record_init(&process_event_record, &news.process);
    news.process.event_type = event_type;
    news.process.pid = pid;
    news.process.run_id = run_id;
    return news;
}

static void test_selection_of_events(void **state _unused_)
{
    const struct event_line exit = make_event(EVENT_EXIT, 7, "make", "r-1");
    const struct event_line gap = {.event = "monitor.gap", .kind = EVENT_KIND_GAP};
    const struct event_line job = {
        .event = "job.started", .job_id = "make", .kind = EVENT_KIND_JOB};
    struct follow_options follow = {.filter = EVENT_FILTER_ALL};

    assert_true(follow_matches(&follow, &exit) && follow_matches(&follow, &gap) &&
                follow_matches(&follow, &job));
    follow.job = "make";
    assert_true(follow_matches(&follow, &exit) && follow_matches(&follow, &job));
    assert_false(follow_matches(&follow, &gap));
    follow.job = "r-1";
    assert_true(follow_matches(&follow, &exit));
    assert_false(follow_matches(&follow, &job));
    follow.job = "mak";
    assert_false(follow_matches(&follow, &exit));

    follow = (struct follow_options){.filter = EVENT_FILTER_ALL};
    follow.filter.event_types = EVENT_TYPE_BIT(EVENT_EXIT) | EVENT_TYPE_BIT(EVENT_OOM);
    assert_true(follow_matches(&follow, &exit));
    assert_false(follow_matches(&follow, &job) || follow_matches(&follow, &gap));
    follow.filter.event_types = EVENT_TYPE_BIT(EVENT_KILL) | EVENT_TYPE_BIT(EVENT_OOM);
    assert_false(follow_matches(&follow, &exit));

    follow = (struct follow_options){.filter = EVENT_FILTER_ALL};
    follow.filter.pid = 7;
    assert_true(follow_matches(&follow, &exit));
    assert_false(follow_matches(&follow, &job));
    follow.filter.pid = 8;
    assert_false(follow_matches(&follow, &exit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_by_use),
        cmocka_unit_test(test_table_as_tree),
        cmocka_unit_test(test_deep_tree_fits_the_terminal),
        cmocka_unit_test(test_cycle_of_parents),
        cmocka_unit_test(test_table_fits_the_terminal),
        cmocka_unit_test(test_free_memory_decides_alone),
        cmocka_unit_test(test_unknown_memory_refuses),
        cmocka_unit_test(test_a_type_that_needs_more_is_refused),
        cmocka_unit_test(test_selection_of_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
