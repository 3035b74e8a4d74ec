#include "unit.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "model/field.h"
#include "sample/sampler.h"
#include "sample/scope.h"

#define SELF 10

/* The test sets the time: seconds since a start, on three clocks with different origins. */
static struct moment at(double seconds)
{
    uint64_t ns = (uint64_t)(seconds * 1e9);
    return (struct moment){.mono_ns = 1000 * NS_PER_SEC + ns,
                           .boot_ns = 5000 * NS_PER_SEC + ns,
                           .real_ns = 1700000000 * NS_PER_SEC + ns};
}

/* In ticks of 10 ms on the boot clock. */
static uint64_t born_at(double seconds)
{
    return (uint64_t)((5000 + seconds) * 100);
}

static struct process_reading process(pid_t pid, double born, double now, double cpu_seconds)
{
    return (struct process_reading){
        .pid = pid,
        .ppid = 1,
        .start_ticks = born_at(born),
        .mono_ns = at(now).mono_ns,
        .state = 'S',
        .threads = 1,
        .cpu_ns = (int64_t)(cpu_seconds * 1e9),
        .rss_bytes = 4 << 20,
        .shared_bytes = 1 << 20,
        .vsize_bytes = 8 << 20,
        .open_fds = 3,
        .uid = 1000,
        .fd_limit = INT_UNKNOWN,
        .read_bytes = INT_UNKNOWN,
        .write_bytes = INT_UNKNOWN,
        .peak_rss_bytes = INT_UNKNOWN,
        .command = "sleep 5",
    };
}

static struct sampler *sampler;
static struct registry *registry;

static int set_up(void **state _unused_)
{
    registry_new(&registry);
    return sampler_new(
        &(struct sampler_options){.own_pid = SELF, .ticks_per_sec = 100, .registry = registry},
        &sampler);
}

static int tear_down(void **state _unused_)
{
    sampler_free(sampler);
    registry_free(registry);
    return 0;
}

static struct snapshot *take(double now, struct process_reading *processes, size_t count)
{
    const struct readings readings = {.items = processes, .count = count, .moment = at(now)};
    struct snapshot *snapshot = NULL;

    assert_int_equal(
        sampler_take(sampler,
                     &(struct sampler_input){.readings = &readings, .process_total = count},
                     &snapshot),
        0);
    return snapshot;
}

static double cpu_of(double now, struct process_reading reading)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = take(now, &reading, 1);
    return snapshot->processes.items[0].cpu_percent;
}

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static void test_rate_at_the_first_reading_is_unknown(void **state _unused_)
{
    assert_true(isnan(cpu_of(0, process(100, -50, 0, 30))));
    assert_near(cpu_of(1, process(100, -50, 1, 30.5)), 50, 1e-6);
}

static void test_rates_use_the_time_of_each_reading(void **state _unused_)
{
    cpu_of(0, process(100, -50, 0, 30));
    /* the scan began at 1.0 but reached this process at 1.2 */
    assert_near(cpu_of(1.0, process(100, -50, 1.2, 31.2)), 100, 1e-6);
}

static void test_new_process_rate_covers_its_life(void **state _unused_)
{
    cpu_of(0, process(1, -50, 0, 1));
    assert_near(cpu_of(1, process(100, 0.8, 1, 0.1)), 50, 1e-3);
}

static void test_rate_of_an_old_process_seen_first_is_unknown(void **state _unused_)
{
    cpu_of(0, process(1, -50, 0, 1));
    assert_true(isnan(cpu_of(1, process(100, -40, 1, 3))));
}

static void test_several_threads_exceed_one_core(void **state _unused_)
{
    cpu_of(0, process(100, -50, 0, 10));
    assert_near(cpu_of(1, process(100, -50, 1, 13.5)), 350, 1e-6);
}

static void test_reused_pid(void **state _unused_)
{
    cpu_of(0, process(100, -50, 0, 30));
    assert_near(cpu_of(1, process(100, 0.5, 1, 0.25)), 50, 1e-3);
}

static void test_a_counter_that_runs_backwards_is_unknown(void **state _unused_)
{
    cpu_of(0, process(100, -50, 0, 30));
    assert_true(isnan(cpu_of(1, process(100, -50, 1, 29))));
    assert_near(cpu_of(2, process(100, -50, 2, 29.25)), 25, 1e-6);
}

static void test_a_clock_step_changes_labels_only(void **state _unused_)
{
    struct process_reading first = process(100, -50, 0, 30), second = process(100, -50, 1, 30.5);
    snapshot_free(take(0, &first, 1));

    struct readings readings = {.items = &second, .count = 1, .moment = at(1)};
    readings.moment.real_ns -= 3600 * NS_PER_SEC; /* set back by an hour */
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
    sampler_take(sampler, &(struct sampler_input){.readings = &readings}, &snapshot);
    assert_near(snapshot->processes.items[0].cpu_percent, 50, 1e-6);
    assert_near(snapshot->processes.items[0].age_seconds, 51, 0.011);
    assert_near(snapshot->timestamp, 1700000001 - 3600, 1e-3);
    assert_near(snapshot->processes.items[0].start_time, 1700000000 - 50 - 3600, 0.011);
}

static void test_start_time_is_stable(void **state _unused_)
{
    struct process_reading reading = process(100, -50, 0, 30);
    _cleanup_(snapshot_freep) struct snapshot *first = take(0, &reading, 1);
    struct readings readings = {.items = &reading, .count = 1, .moment = at(1)};
    readings.moment.real_ns += 2 * NS_PER_MSEC; /* slewed a little */
    _cleanup_(snapshot_freep) struct snapshot *second = NULL;
    sampler_take(sampler, &(struct sampler_input){.readings = &readings}, &second);
    assert_true(first->processes.items[0].start_time == second->processes.items[0].start_time);
}

static struct run *add_run(const char *run_id, const char *name, struct run *parent)
{
    struct run *run = NULL;

    assert_int_equal(
        registry_add_run(
            registry,
            &(struct run_options){.run_id = run_id, .job_id = name, .uid = 1000, .parent = parent},
            &run),
        0);
    return run;
}

static void test_jobs(void **state _unused_)
{
    struct run *run = add_run("run-1", "build", NULL);
    registry_add(registry, run, 4, 100);
    registry_begin_sheet(registry, run, 4, 100);

    struct process_reading first[] = {process(100, -1, 0, 1), process(7, -1, 0, 5)};
    snapshot_free(take(0, first, 2));
    struct process_reading second[] = {process(100, -1, 1, 1.5), process(101, 0.5, 1, 0.25),
                                       process(7, -1, 1, 6)};
    second[1].ppid = 100;
    second[0].reaped_user_ns =
        (int64_t)(NS_PER_SEC / 4); /* children that started and ended between readings */
    _cleanup_(snapshot_freep) struct snapshot *snapshot = take(1, second, 3);

    assert_string_equal(snapshot->processes.items[1].job_id, "build");
    assert_string_equal(snapshot->processes.items[1].run_id, "run-1");
    assert_int_equal(snapshot->processes.items[1].sheet_num, 4);
    assert_null(snapshot->processes.items[2].job_id);
    assert_int_equal(snapshot->jobs.count, 1);
    const struct job_usage *usage = &snapshot->jobs.items[0];
    assert_near(usage->cpu_seconds, 1.5 + 0.25 + 0.25, 1e-6);
    assert_near(usage->cpu_percent, 100, 1e-6);
    assert_int_equal(usage->processes, 2);
    assert_near(usage->rss_mb, 8, 1e-6);
    assert_near(usage->unique_min_mb, 7, 1e-6);
    assert_near(usage->unique_mb, 8, 1e-6);
    assert_int_equal(snapshot->running_jobs, 1);
    assert_int_equal(snapshot->active_sheets, 1);
}

static void test_each_process_has_its_own_step(void **state _unused_)
{
    struct run *run = add_run("run-1", "build", NULL);
    struct process_reading readings[] = {process(100, -1, 0, 1), process(101, -1, 0, 1),
                                         process(102, -1, 0, 1)};

    registry_add(registry, run, INT_UNKNOWN, 100);
    registry_add(registry, run, 0, 101);
    registry_add(registry, run, 7, 102);
    registry_begin_sheet(registry, run, 0, 101);
    registry_begin_sheet(registry, run, 7, 102);
    _cleanup_(snapshot_freep) struct snapshot *snapshot = take(0, readings, 3);
    assert_false(int_is_known(snapshot->processes.items[0].sheet_num));
    assert_int_equal(snapshot->processes.items[1].sheet_num, 0);
    assert_int_equal(snapshot->processes.items[2].sheet_num, 7);
    assert_int_equal(snapshot->active_sheets, 2);
}

static void test_runs_without_processes_are_listed(void **state _unused_)
{
    struct run *run = add_run("run-1", "build", NULL);
    add_run("run-2", "empty", NULL);
    struct process_reading reading = process(100, -1, 0, 1);

    registry_add(registry, run, INT_UNKNOWN, 100);
    snapshot_free(take(0, &reading, 1));
    registry_exit(registry, 100, 0);
    _cleanup_(snapshot_freep) struct snapshot *snapshot = take(1, NULL, 0);
    assert_int_equal(snapshot->running_jobs, 2);
    assert_int_equal(snapshot->jobs.count, 2);
    const struct job_usage *usages = snapshot->jobs.items;
    assert_string_equal(usages[0].job_id, "build");
    assert_int_equal(usages[0].processes, 0);
    assert_near(usages[0].cpu_seconds, 1, 1e-6);
    assert_near(usages[0].cpu_percent, 0, 1e-6);
    assert_near(usages[0].rss_mb, 0, 1e-6);
    assert_string_equal(usages[1].run_id, "run-2");
    assert_int_equal(usages[1].processes, 0);
    assert_false(real_is_known(usages[1].cpu_seconds)); /* its processes were never read */
    assert_false(real_is_known(usages[1].cpu_percent));
    assert_false(real_is_known(usages[1].rss_mb));
}

static void test_a_run_within_a_run(void **state _unused_)
{
    struct run *outer = add_run("run-1", "outer", NULL);
    struct run *inner = add_run("run-2", "inner", outer);
    struct process_reading first[] = {process(100, -1, 0, 1), process(101, -1, 0, 2)};
    struct process_reading second[] = {process(100, -1, 1, 1.25), process(101, -1, 1, 2.5)};

    registry_add(registry, outer, INT_UNKNOWN, 100);
    registry_add(registry, inner, INT_UNKNOWN, 101);
    snapshot_free(take(0, first, 2));
    _cleanup_(snapshot_freep) struct snapshot *snapshot = take(1, second, 2);
    const struct job_usage *usages = snapshot->jobs.items;
    assert_near(usages[0].cpu_seconds, 3.75, 1e-6);
    assert_near(usages[0].cpu_percent, 75, 1e-6);
    assert_near(usages[0].rss_mb, 8, 1e-6);
    assert_near(usages[0].unique_min_mb, 7, 1e-6);
    assert_near(usages[0].unique_mb, 8, 1e-6);
    assert_int_equal(usages[0].processes, 2);
    assert_near(usages[1].cpu_seconds, 2.5, 1e-6);
    assert_near(usages[1].cpu_percent, 50, 1e-6);
    assert_string_equal(snapshot->processes.items[1].job_id, "inner");
}

static void test_progress(void **state _unused_)
{
    struct run *known = add_run("run-1", "known", NULL);
    add_run("run-2", "silent", NULL);
    struct run *new = add_run("run-3", "new", NULL);

    known->total_sheets = 9;
    known->last_completed_sheet = 3;
    known->current_sheet = 4;
    strcpy(known->status, "compiling");
    new->total_sheets = 1;
    _cleanup_(snapshot_freep) struct snapshot *snapshot = take(0, NULL, 0);
    assert_int_equal(snapshot->running_jobs, 3);
    assert_int_equal(snapshot->active_sheets, 0);
    assert_int_equal(snapshot->job_progress.count, 2);
    const struct job_progress *progress = snapshot->job_progress.items;
    assert_string_equal(progress[0].job_id, "known");
    assert_int_equal(progress[0].total_sheets, 9);
    assert_int_equal(progress[0].last_completed_sheet, 3);
    assert_int_equal(progress[0].current_sheet, 4);
    assert_string_equal(progress[0].status, "compiling");
    assert_string_equal(progress[1].job_id, "new");
    assert_false(int_is_known(progress[1].last_completed_sheet));
    assert_false(int_is_known(progress[1].current_sheet));
    assert_null(progress[1].status);
}

static void test_a_run_ends(void **state _unused_)
{
    struct run *run = add_run("run-1", "build", NULL);
    struct process_reading reading = process(100, -1, 0, 5);

    registry_add(registry, run, INT_UNKNOWN, 100);
    snapshot_free(take(0, &reading, 1));
    assert_non_null(sampler_usage(sampler, &run->node));
    sampler_end_run(sampler, run);
    assert_null(sampler_usage(sampler, &run->node));
    registry_end_run(registry, run);

    /* the next run, perhaps at the same address, starts from zero */
    run = add_run("run-2", "build", NULL);
    registry_add(registry, run, INT_UNKNOWN, 200);
    struct process_reading both[] = {process(100, -1, 1, 6), process(200, 0.5, 1, 0.25)};
    _cleanup_(snapshot_freep) struct snapshot *snapshot = take(1, both, 2);
    assert_null(snapshot->processes.items[0].job_id);
    assert_string_equal(snapshot->processes.items[1].run_id, "run-2");
    assert_int_equal(snapshot->jobs.count, 1);
    assert_near(snapshot->jobs.items[0].cpu_seconds, 0.25, 1e-6);
    assert_true(isnan(snapshot->jobs.items[0].cpu_percent));
}

static void test_without_a_registry_there_are_no_jobs(void **state _unused_)
{
    struct sampler *alone;
    struct process_reading reading = process(100, -1, 0, 5);
    const struct readings readings = {.items = &reading, .count = 1, .moment = at(0)};
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;

    assert_int_equal(sampler_new(&(struct sampler_options){.own_pid = SELF}, &alone), 0);
    assert_int_equal(sampler_take(alone, &(struct sampler_input){.readings = &readings}, &snapshot),
                     0);
    assert_int_equal(snapshot->running_jobs, 0);
    assert_int_equal(snapshot->active_sheets, 0);
    assert_int_equal(snapshot->jobs.count, 0);
    sampler_free(alone);
}

static void test_zombies_and_sonde_itself(void **state _unused_)
{
    struct process_reading readings[] = {process(SELF, -1, 0, 1), process(8, -1, 0, 1)};
    readings[1].state = 'Z';
    _cleanup_(snapshot_freep) struct snapshot *snapshot = take(0, readings, 2);

    assert_int_equal(snapshot->zombie_count, 1);
    assert_int_equal(snapshot->zombie_pids.items[0], 8);
    assert_int_equal(snapshot->daemon_pid, SELF);
    assert_near(snapshot->daemon_rss_mb, 4, 1e-6);
    assert_true(isnan(snapshot->system_memory_total_mb)); /* it was not read */
    assert_int_equal(snapshot->pressure_level, PRESSURE_UNKNOWN);
}

static void test_scope_keeps_jobs_zombies_and_the_largest(void **state _unused_)
{
    struct process_metric items[200];
    struct process_list list = {.items = items, .count = ARRAY_SIZE(items)};

    for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
        record_init(&process_metric_record, &items[i]);
        items[i].pid = (int64_t)i;
        items[i].state = 'S';
        items[i].cpu_percent = i < 100 ? (double)i : REAL_UNKNOWN;
        items[i].rss_mb = (double)(200 - i);
    }
    items[150].job_id = "job";
    items[160].state = 'Z';
    assert_int_equal(scope_apply(SCOPE_JOBS, &list, NULL, NULL), 0);
    assert_int_equal(list.count, 20 + 20 + 2);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(items[i].pid, i); /* most memory */
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(items[20 + i].pid, 80 + i); /* most CPU */
    assert_int_equal(items[40].pid, 150);
    assert_int_equal(items[41].pid, 160);
}

static bool is_pid(void *context, const struct process_metric *process)
{
    return process->pid == *(const int64_t *)context;
}

static void test_scope_keeps_processes_the_caller_wants(void **state _unused_)
{
    struct process_metric items[100];
    struct process_list list = {.items = items, .count = ARRAY_SIZE(items)};
    int64_t wanted = 77;

    for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
        record_init(&process_metric_record, &items[i]);
        items[i].pid = (int64_t)i;
        items[i].rss_mb = (double)(200 - i);
    }
    assert_int_equal(scope_apply(SCOPE_ALL, &list, is_pid, &wanted), 0);
    assert_int_equal(list.count, 100);
    assert_int_equal(scope_apply(SCOPE_JOBS, &list, is_pid, &wanted), 0);
    assert_int_equal(list.count, 21);
    assert_int_equal(items[20].pid, 77);
}

/* Of equal values the first processes are kept, which are the same at every tick. A process of a
 * job counts as one of the largest. */
static void test_scope_with_equal_values(void **state _unused_)
{
    struct process_metric items[100];
    struct process_list list = {.items = items, .count = ARRAY_SIZE(items)};

    for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
        record_init(&process_metric_record, &items[i]);
        items[i].pid = (int64_t)i;
        items[i].state = 'S';
        items[i].rss_mb = i < 97 ? 8 : 16;
    }
    items[2].job_id = items[50].job_id = "job";
    assert_int_equal(scope_apply(SCOPE_JOBS, &list, NULL, NULL), 0);
    assert_int_equal(list.count, 20 + 1);
    for (size_t i = 0; i < 17; i++)
        assert_int_equal(items[i].pid, i);
    assert_int_equal(items[17].pid, 50);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(items[18 + i].pid, 97 + i);
}

static void test_scope_of_an_empty_list(void **state _unused_)
{
    struct process_list list = {0};
    assert_int_equal(scope_apply(SCOPE_JOBS, &list, NULL, NULL), 0);
    assert_int_equal(list.count, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_rate_at_the_first_reading_is_unknown),
        T(test_rates_use_the_time_of_each_reading),
        T(test_new_process_rate_covers_its_life),
        T(test_rate_of_an_old_process_seen_first_is_unknown),
        T(test_several_threads_exceed_one_core),
        T(test_reused_pid),
        T(test_a_counter_that_runs_backwards_is_unknown),
        T(test_a_clock_step_changes_labels_only),
        T(test_start_time_is_stable),
        T(test_jobs),
        T(test_each_process_has_its_own_step),
        T(test_runs_without_processes_are_listed),
        T(test_a_run_within_a_run),
        T(test_progress),
        T(test_a_run_ends),
        T(test_without_a_registry_there_are_no_jobs),
        T(test_zombies_and_sonde_itself),
        T(test_scope_keeps_jobs_zombies_and_the_largest),
        T(test_scope_keeps_processes_the_caller_wants),
        T(test_scope_with_equal_values),
        T(test_scope_of_an_empty_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
