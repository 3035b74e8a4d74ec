/* Counts of traced processes in the rows of snapshots, also when memory runs out on the way. */
#include "failing-allocator.h"
#include "unit.h"

#include "base/cleanup.h"
#include "base/macros.h"
#include "trace/traced-processes.h"

#define PROCESSES  3
#define FIRST_PID  100
#define START_TICK 7

static struct traced_processes processes;
static struct syscall_profile calls;

static int set_up(void **state _unused_)
{
    processes = (struct traced_processes){0};
    syscall_profile_clear(&calls);
    int r = syscall_profile_add(&calls, &(struct syscall_sum){.call = 1, .count = 3, .ns = 5});
    for (pid_t pid = FIRST_PID; pid < FIRST_PID + PROCESSES; pid++)
        traced_processes_add(&processes, pid, START_TICK, &calls, 0);
    return r;
}

static int tear_down(void **state _unused_)
{
    traced_processes_done(&processes);
    syscall_profile_done(&calls);
    return 0;
}

/* A snapshot with a row for the first `count` processes. */
static struct snapshot *new_snapshot(size_t count)
{
    struct snapshot *snapshot = snapshot_new();

    assert_non_null(snapshot);
    snapshot->processes.items =
        arena_alloc(&snapshot->arena, count * sizeof(snapshot->processes.items[0]));
    assert_non_null(snapshot->processes.items);
    for (size_t i = 0; i < count; i++) {
        struct process_metric *metric = &snapshot->processes.items[i];

        record_init(&process_metric_record, metric);
        metric->pid = FIRST_PID + (pid_t)i;
        metric->start_ticks = START_TICK;
    }
    snapshot->processes.count = count;
    return snapshot;
}

static size_t rows_with_counts(const struct snapshot *snapshot)
{
    size_t rows = 0;

    for (size_t i = 0; i < snapshot->processes.count; i++)
        rows += snapshot->processes.items[i].syscall_counts.count > 0;
    return rows;
}

static void test_counts_are_shown_once(void **state _unused_)
{
    for (size_t i = 0; i < 2; i++) {
        _cleanup_(snapshot_freep) struct snapshot *snapshot = new_snapshot(PROCESSES);

        assert_int_equal(traced_processes_fill(&processes, snapshot), 0);
        assert_int_equal(rows_with_counts(snapshot), i == 0 ? PROCESSES : 0);
    }
    assert_int_equal(processes.processes.count, PROCESSES);
}

static void test_gone_are_dropped(void **state _unused_)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = new_snapshot(1);

    assert_int_equal(traced_processes_fill(&processes, snapshot), 0);
    assert_non_null(traced_processes_find(&processes, FIRST_PID));
    assert_int_equal(processes.processes.count, 1);
}

/* Fails in one snapshot; that one and the next show each count exactly once. */
static int fill_twice(void)
{
    is_failing = false;
    set_up(NULL);
    _cleanup_(snapshot_freep) struct snapshot *first = new_snapshot(PROCESSES);
    _cleanup_(snapshot_freep) struct snapshot *second = new_snapshot(PROCESSES);

    is_failing = true;
    int r = traced_processes_fill(&processes, first);
    is_failing = false;
    assert_int_equal(processes.processes.count, PROCESSES);
    assert_int_equal(traced_processes_fill(&processes, second), 0);
    assert_int_equal(rows_with_counts(first) + rows_with_counts(second), PROCESSES);
    tear_down(NULL);
    return r;
}

static void test_no_memory(void **state _unused_)
{
    assert_true(fail_each_allocation(fill_twice, false, PROCESSES) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_counts_are_shown_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gone_are_dropped, set_up, tear_down),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
