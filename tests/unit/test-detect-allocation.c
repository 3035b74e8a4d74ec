/* Every allocation of a history with all kinds of anomalies fails once, and then all from it on: an
 * error is returned, nothing crashes or leaks (under ASan). Reports that failed come later, once
 * each, an opening before its clearing. Linked with -Wl,--wrap for the allocators. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "detect-world.h"
#include "detect/pressure.h"
#include "failing-allocator.h"

/* The reports of an episode. */
struct heard {
    double timestamp;
    const char *type;
    int64_t pid;
    char run_id[16];
    bool is_cleared;
};

struct history {
    struct detector *detector;
    struct snapshot snapshot;
    struct process_metric processes[8];
    struct process_event oom;
    struct process_event_list events;
    struct heard heard[64];
    size_t reported_count;
    int error; /* the first one */
};

static struct heard *find_report(struct history *history, const struct anomaly *anomaly)
{
    for (size_t i = 0; i < history->reported_count; i++) {
        struct heard *heard = &history->heard[i];
        if (heard->timestamp == anomaly->timestamp && heard->type == anomaly->anomaly_type &&
            heard->pid == anomaly->pid &&
            strcmp(heard->run_id, anomaly->run_id ? anomaly->run_id : "") == 0)
            return heard;
    }
    return NULL;
}

static void count_reports(struct history *history, const struct anomaly_list *reported)
{
    for (size_t i = 0; i < reported->count; i++) {
        const struct anomaly *anomaly = &reported->items[i];
        struct heard *heard = find_report(history, anomaly);

        assert_true(anomaly->is_opening == !heard);
        assert_non_null(anomaly->description);
        if (!heard) {
            assert_true(history->reported_count < ARRAY_SIZE(history->heard));
            heard = &history->heard[history->reported_count++];
            *heard = (struct heard){.timestamp = anomaly->timestamp,
                                    .type = anomaly->anomaly_type,
                                    .pid = anomaly->pid};
            strcpy(heard->run_id, anomaly->run_id ? anomaly->run_id : "");
        }
        assert_false(heard->is_cleared);
        heard->is_cleared = real_is_known(anomaly->cleared_at);
    }
}

static void check(struct history *history, uint64_t ns)
{
    struct arena arena = {0};
    struct anomaly_list reported = {0}, open;
    const struct detect_input input = {
        .snapshot = &history->snapshot, .mono_ns = ns, .events = &history->events};

    history->snapshot.timestamp = (double)ns / 1e9;
    int r = detector_check(history->detector, &input, &arena, &reported);
    assert_true(r == 0 || r == -ENOMEM);
    history->error = history->error ? history->error : r;
    count_reports(history, &reported);
    r = detector_list_open(history->detector, &arena, &open);
    history->error = history->error ? history->error : r;
    arena_done(&arena);
}

static void init_history(struct history *history)
{
    record_init(&snapshot_record, &history->snapshot);
    history->snapshot.processes.items = history->processes;
    history->snapshot.processes.count = ARRAY_SIZE(history->processes);
    history->snapshot.system_memory_total_mb = 1000;
    for (size_t i = 0; i < ARRAY_SIZE(history->processes); i++) {
        struct process_metric *process = &history->processes[i];
        record_init(&process_metric_record, process);
        process->pid = 100 + (int64_t)i;
        process->command = "command";
        process->age_seconds = 100;
        process->run_id = process->job_id = i % 2 ? "run-1" : NULL;
        process->state = i < 2 ? 'D' : i < 4 ? 'Z' : 'R';
        process->cpu_percent = i >= 4 ? 100 : 0;
        process->open_fds = i >= 6 ? 2000 : 5;
        process->rss_mb = 100;
    }
    record_init(&process_event_record, &history->oom);
    history->oom.uid = INT_UNKNOWN;
    history->oom.event_type = EVENT_OOM;
    history->oom.pid = 100;
    history->oom.command = "command";
    history->events.items = &history->oom;
}

/* All kinds open, some get worse, all clear. Allocations may fail while it lasts. */
static void replay_history(struct history *history)
{
    uint64_t ns = 0;

    for (int tick = 0; tick < 40; tick++) {
        history->snapshot.system_memory_available_mb = tick > 10 ? 90 - tick : 500;
        history->events.count = tick == 20;
        for (size_t i = 4; i < ARRAY_SIZE(history->processes); i++)
            history->processes[i].rss_mb += i == 4 ? 1000 : 5;
        check(history, ns += UINT64_C(5000000000));
    }
}

static void end_history(struct history *history)
{
    uint64_t ns = UINT64_C(1000000000000);

    history->snapshot.processes.count = history->events.count = 0;
    history->snapshot.system_memory_available_mb = 500;
    for (int tick = 0; tick < 5; tick++)
        check(history, ns += UINT64_C(5000000000));
    assert_int_equal(detector_open_count(history->detector), 0);
    for (size_t i = 0; i < history->reported_count; i++)
        assert_true(history->heard[i].is_cleared);
}

/* The episodes of the history that were reported; 0: there was no detector. */
static size_t all_count, reported_count;

/* Allocations fail only during the history. Returns 0 or the first error. */
static int try(void)
{
    bool was_failing = TAKE(is_failing, false);
    struct history history = {0};
    struct anomaly_config config = world_config();
    struct detect_constants constants = detect_constants_default;

    constants.leak_points_max = 20;
    constants.leak_points_min = 10;
    constants.leak_span_ns = UINT64_C(60000000000);
    init_history(&history);
    reported_count = 0;
    is_failing = was_failing;
    int r = detector_new_with(&config, &constants, &history.detector);
    if (r < 0)
        return r;
    replay_history(&history);
    is_failing = false;
    end_history(&history);
    detector_free(history.detector);
    reported_count = history.reported_count;
    return history.error;
}

/* Each failure is an error. After a single one everything is reported, if later; except the event,
 * which is gone by then. */
static int try_and_check(void)
{
    long site = countdown;
    int r = try();

    if (has_failed() && r == 0)
        fail_msg("allocation %ld failed without an error", site);
    if (!fails_for_good && site > 1)
        assert_in_range(reported_count, all_count - 1, all_count);
    return r;
}

static void fail_all(bool for_good)
{
    assert_int_equal(try(), 0);
    all_count = reported_count;
    assert_true(all_count > 10);
    fail_each_allocation(try_and_check, for_good, 100);
}

static void test_each_allocation_fails_once(void **state _unused_)
{
    fail_all(false);
}

static void test_all_allocations_fail_from_each_on(void **state _unused_)
{
    fail_all(true);
}

/* In the steady state nothing is allocated, not even while episodes are open. */
static void test_steady_state_allocates_nothing(void **state _unused_)
{
    struct history history = {0};
    struct anomaly_config config = world_config();
    struct arena arena = {0};
    uint64_t ns = 0;

    fails_for_good = false;
    init_history(&history);
    assert_int_equal(detector_new(&config, &history.detector), 0);
    for (int tick = 0; tick < 2000; tick++) {
        struct anomaly_list reported;
        const struct detect_input input = {.snapshot = &history.snapshot,
                                           .mono_ns = ns += UINT64_C(5000000000)};

        is_failing = tick > 1000;
        countdown = 1;
        /* `stuck` is reported again as its time grows. */
        for (size_t i = 0; i < 2; i++)
            history.processes[i].state = tick > 100 ? 'S' : 'D';
        history.processes[5].rss_mb = 500 + tick % 3;
        assert_int_equal(detector_check(history.detector, &input, &arena, &reported), 0);
    }
    is_failing = false;
    assert_int_equal(countdown, 1);
    assert_true(detector_open_count(history.detector) > 3);
    arena_done(&arena);
    detector_free(history.detector);
}

static void test_admission_without_memory_for_its_text(void **state _unused_)
{
    const struct pressure_limits limits = {.max_memory_mb = 1000, .max_processes = 100};
    const struct pressure_input input = {.unique_mb = 990, .psi_memory_full_avg10 = REAL_UNKNOWN};
    struct admission admission;

    is_failing = fails_for_good = true;
    countdown = 1;
    pressure_should_accept_job(&limits, &input, NULL, &admission);
    is_failing = false;
    assert_false(admission.allowed);
    assert_int_equal(admission.level, PRESSURE_CRITICAL);
    assert_string_equal(admission.reason, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_fails_once),
        cmocka_unit_test(test_all_allocations_fail_from_each_on),
        cmocka_unit_test(test_steady_state_allocates_nothing),
        cmocka_unit_test(test_admission_without_memory_for_its_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
