/* The kernel's accounting takes over from the counters of reaping parents: nothing is lost or
 * counted twice while processes start, end and are reaped. */
#include "unit.h"

#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "model/field.h"
#include "sample/kernel-account.h"

#define MS   ((int64_t)NS_PER_MSEC)
#define ROOT 4000020 /* no process of the machine */

static struct registry *registry;
static struct collector *collector;
static struct kernel_account account;
static struct run *run;

static int set_up(void **state _unused_)
{
    const struct run_options options = {.run_id = "r", .job_id = "j"};

    assert_int_equal(registry_new(&registry), 0);
    assert_int_equal(registry_add_run(registry, &options, &run), 0);
    assert_int_equal(registry_add(registry, run, INT_UNKNOWN, ROOT), 0);
    assert_int_equal(collector_new(&(struct collector_options){.registry = registry}, &collector),
                     0);
    account = (struct kernel_account){.registry = registry, .collector = collector};
    return 0;
}

static int tear_down(void **state _unused_)
{
    kernel_account_done(&account);
    collector_free(collector);
    registry_free(registry);
    return 0;
}

struct seen {
    int pid, ppid; /* offsets from ROOT; a parent of -1 is sonde */
    int64_t own_ms, reaped_ms;
    char state; /* 0: running; 'X': exiting */
};

static size_t read_all(const struct seen *seen, size_t count, struct process_reading *into)
{
    for (size_t i = 0; i < count; i++)
        into[i] = (struct process_reading){
            .pid = ROOT + seen[i].pid,
            .ppid = seen[i].ppid < 0 ? getpid() : ROOT + seen[i].ppid,
            .start_ticks = (uint64_t)(100 + seen[i].pid),
            .cpu_ns = seen[i].own_ms * MS,
            .user_ns = seen[i].own_ms * MS,
            .reaped_user_ns = seen[i].reaped_ms * MS,
            .peak_rss_bytes = INT_UNKNOWN,
            .rss_bytes = INT_UNKNOWN,
            .state = seen[i].state == 'Z' ? 'Z' : 'R',
            .is_ending = seen[i].state == 'Z' || seen[i].state == 'X',
            .command = "x",
        };
    return count;
}

/* All members that have not ended get their tags. */
static void tag_all(void)
{
    struct member *member = NULL;

    while ((member = registry_next(registry, member)))
        if (!member->has_ended)
            member->tag = member->run->node.tag;
}

static int look(const struct seen *seen, size_t count)
{
    struct process_reading items[8];
    const struct readings readings = {.items = items, .count = read_all(seen, count, items)};

    return kernel_account_add_readings(&account, &readings);
}

static void tick(const struct seen *seen, size_t count)
{
    struct process_reading items[8];
    const struct readings readings = {
        .items = items, .count = read_all(seen, count, items), .moment = moment_now()};
    struct snapshot *snapshot;

    assert_int_equal(sampler_take(collector_sampler(collector),
                                  &(struct sampler_input){.readings = &readings}, &snapshot),
                     0);
    snapshot_free(snapshot);
}

#define WITH(function, ...)                                                                        \
    function((const struct seen[]){__VA_ARGS__},                                                   \
             sizeof((const struct seen[]){__VA_ARGS__}) / sizeof(struct seen))
#define LOOK(...) WITH(look, __VA_ARGS__)
#define TICK(...) WITH(tick, __VA_ARGS__)

static void report_fork(int parent, int child)
{
    struct lifecycle_event event;

    assert_int_equal(registry_fork(registry, ROOT + parent, ROOT + child), 0);
    lifecycle_event_init(&event, LIFECYCLE_FORK);
    event.pid = ROOT + child;
    event.ppid = ROOT + parent;
    event.start_ticks = (uint64_t)(100 + child);
    struct member *member = registry_find(registry, ROOT + child);
    member->tag = run->node.tag;
    assert_int_equal(kernel_account_add_event(&account, member, &event), 0);
}

static void report_exit(int pid, int64_t cpu_ms)
{
    struct lifecycle_event event;

    lifecycle_event_init(&event, LIFECYCLE_EXIT);
    event.pid = ROOT + pid;
    event.ppid = registry_find(registry, ROOT + pid)->ppid;
    event.cpu_ns = event.user_ns = cpu_ms * MS;
    assert_int_equal(
        kernel_account_add_event(&account, registry_find(registry, ROOT + pid), &event), 0);
    registry_exit(registry, ROOT + pid, 0);
}

static int64_t cpu_ms(void)
{
    tick(NULL, 0);
    const struct run_usage *usage = sampler_usage(collector_sampler(collector), &run->node);

    assert_false(usage->cpu_is_incomplete);
    return (int64_t)usage->accounted.total_ns / MS;
}

static bool misses_cpu(void)
{
    return sampler_usage(collector_sampler(collector), &run->node)->cpu_is_incomplete;
}

static void report_end_without_parent(int pid)
{
    struct lifecycle_event event;

    lifecycle_event_init(&event, LIFECYCLE_EXIT);
    event.pid = ROOT + pid;
    assert_int_equal(
        kernel_account_add_event(&account, registry_find(registry, ROOT + pid), &event), 0);
}

/* An end from the connector, which arrives while the kernel takes over, has no parent. That is the
 * process which forked it. */
static void test_an_end_without_its_parent(void **state _unused_)
{
    TICK({0, -1, 10, 0});
    assert_int_equal(registry_fork(registry, ROOT, ROOT + 1), 0);
    report_end_without_parent(1);
    assert_false(misses_cpu());
}

/* If that is gone, or not in the run, sonde gets the time only as a subreaper. */
static void test_an_end_of_an_orphan(void **state _unused_)
{
    TICK({0, -1, 10, 0});
    assert_int_equal(registry_fork(registry, ROOT, ROOT + 1), 0);
    assert_int_equal(registry_fork(registry, ROOT, ROOT + 2), 0);
    registry_remove(registry, ROOT);
    assert_int_equal(registry_set_foster(registry, getpid(), run), 0);
    report_end_without_parent(1);
    assert_false(misses_cpu());

    tear_down(NULL);
    set_up(NULL);
    TICK({0, 1, 10, 0});
    assert_int_equal(registry_fork(registry, ROOT, ROOT + 1), 0);
    registry_remove(registry, ROOT);
    report_end_without_parent(1);
    assert_true(misses_cpu());
}

static void report_exec(int pid, int64_t former_peak)
{
    struct lifecycle_event event;

    lifecycle_event_init(&event, LIFECYCLE_EXEC);
    event.pid = ROOT + pid;
    event.peak_rss_bytes = former_peak;
    assert_int_equal(
        kernel_account_add_event(&account, registry_find(registry, ROOT + pid), &event), 0);
}

/* Of a registered process that is older than the daemon, the peak before an exec is not known. */
static void test_peak_before_the_first_exec(void **state _unused_)
{
    TICK({0, -1, 1, 0});
    report_exec(0, 1 << 20); /* not the first one */
    const struct run_usage *usage = sampler_usage(collector_sampler(collector), &run->node);
    assert_true(run_usage_has_peak(usage));
    report_exec(0, INT_UNKNOWN);
    assert_false(run_usage_has_peak(usage));
}

/* The command has ended and waits to be reaped, its children were reaped since the last tick. */
static void test_command_that_has_ended(void **state _unused_)
{
    TICK({0, -1, 1, 0}, {1, 0, 134, 0}, {2, 0, 133, 0});
    tag_all();
    kernel_account_begin(&account);
    assert_int_equal(LOOK({0, -1, 1, 300, 'Z'}), 0);
    assert_int_equal(LOOK({0, -1, 1, 300, 'Z'}), 1);
    assert_true(registry_find(registry, ROOT)->is_counted);
    assert_int_equal(cpu_ms(), 301);
}

/* The child ends before the check and is reaped after it. */
static void test_child_that_is_not_reaped_yet(void **state _unused_)
{
    tag_all();
    kernel_account_begin(&account);
    assert_int_equal(LOOK({0, -1, 1, 10}), 0);
    report_fork(0, 1);
    assert_int_equal(LOOK({0, -1, 1, 10}, {1, 0, 50, 0, 'Z'}), 0);
    assert_int_equal(LOOK({0, -1, 1, 10}, {1, 0, 50, 0, 'Z'}), 1);
    report_exit(1, 50); /* once */
    report_exit(0, 2);
    assert_int_equal(cpu_ms(), 2 + 10 + 50);
}

/* Forked and reaped between two checks: its time is in that of its parent. */
static void test_child_reaped_between_checks(void **state _unused_)
{
    tag_all();
    kernel_account_begin(&account);
    assert_int_equal(LOOK({0, -1, 1, 10}), 0);
    report_fork(0, 1);
    report_exit(1, 50);
    assert_int_equal(LOOK({0, -1, 1, 60}), 0);
    assert_int_equal(LOOK({0, -1, 1, 60}), 1);
    report_exit(0, 2);
    assert_int_equal(cpu_ms(), 2 + 60);
}

/* The fork is reported when the parent is already covered: the child started after the drain, and
 * was not reaped before the last check, which would have found a change. */
static void test_late_events_of_child(void **state _unused_)
{
    tag_all();
    kernel_account_begin(&account);
    assert_int_equal(LOOK({0, -1, 1, 10}), 0);
    assert_int_equal(LOOK({0, -1, 1, 10}), 1);
    report_fork(0, 1);
    report_exit(1, 50);
    report_exit(0, 2);
    assert_int_equal(cpu_ms(), 2 + 10 + 50);
}

/* As when a rule makes a process a member during a snapshot: the next check covers it. */
static void test_children_of_one_that_is_not_covered(void **state _unused_)
{
    report_fork(0, 1);
    report_exit(1, 50);
    TICK({0, -1, 1, 50});
    report_fork(0, 2);
    report_exit(2, 30);
    tag_all();
    kernel_account_begin(&account);
    assert_int_equal(LOOK({0, -1, 1, 80}), 0);
    assert_int_equal(LOOK({0, -1, 1, 80}), 1);
    report_exit(0, 2);
    assert_int_equal(cpu_ms(), 2 + 80);
}

/* The child may have ended before it got its tag: then its exit is not reported. */
static void test_exiting_child(void **state _unused_)
{
    report_fork(0, 1);
    tag_all();
    kernel_account_begin(&account);
    for (int i = 0; i < 3; i++)
        assert_int_equal(LOOK({0, -1, 1, 0}, {1, 0, 49, 0, 'X'}), 0);
    assert_int_equal(LOOK({0, -1, 1, 0}, {1, 0, 50, 0, 'Z'}), 0);
    assert_int_equal(LOOK({0, -1, 1, 0}, {1, 0, 50, 0, 'Z'}), 1);
    report_exit(0, 2);
    assert_int_equal(cpu_ms(), 2 + 50);
}

static void test_child_without_a_tag(void **state _unused_)
{
    report_fork(0, 1);
    tag_all();
    registry_find(registry, ROOT + 1)->tag = 0;
    kernel_account_begin(&account);
    for (int i = 0; i < 3; i++)
        assert_int_equal(LOOK({0, -1, 1, 0}, {1, 0, 5, 0}), 0);
    assert_false(registry_find(registry, ROOT)->is_covered);
}

/* A run whose processes change at every check stays with the counters of its reaping parents. */
static void test_storm_that_does_not_end(void **state _unused_)
{
    struct rusage usage = {.ru_utime.tv_sec = 2};

    tag_all();
    kernel_account_begin(&account);
    for (int i = 0; i < 20; i++) {
        report_fork(0, 1 + i);
        report_exit(1 + i, 7);
        assert_int_equal(LOOK({0, -1, 1, 7 * (i + 1)}), 0);
    }
    report_exit(0, 2);
    assert_int_equal(sampler_reaped(collector_sampler(collector), &run->node, ROOT, &usage), 0);
    assert_int_equal(cpu_ms(), 2000);
}

/* … and does not delay other runs. */
static void test_sleeping_processes_beside_busy_ones(void **state _unused_)
{
    const struct run_options options = {.run_id = "s", .job_id = "k"};
    struct run *other;

    assert_int_equal(registry_add_run(registry, &options, &other), 0);
    assert_int_equal(registry_add(registry, other, INT_UNKNOWN, ROOT + 7), 0);
    tag_all();
    kernel_account_begin(&account);
    for (int i = 0; i < 2; i++)
        assert_int_equal(LOOK({0, -1, 1, i}, {7, -1, 1, 5}), 0);
    assert_false(registry_find(registry, ROOT)->is_covered);
    assert_true(registry_find(registry, ROOT + 7)->is_covered);
}

/* An inner run that was registered before the outer one: its exits count once for the outer run,
 * whether that is covered by then or not. */
static void test_parent_that_is_found_late(void **state _unused_)
{
    const struct run_options options = {.run_id = "i", .job_id = "inner"};
    struct run *inner;

    assert_int_equal(registry_add_run(registry, &options, &inner), 0);
    assert_int_equal(registry_add(registry, inner, INT_UNKNOWN, ROOT + 10), 0);
    report_fork(-100, 10); /* forked by a process that is no member */
    report_fork(10, 11);
    report_fork(10, 12);
    assert_true(registry_find(registry, ROOT + 11)->is_covered);
    assert_int_equal(kernel_account_set_parent(&account, inner, &run->node), 0);
    assert_ptr_equal(inner->parent, run);
    assert_true(inner->awaits_parent_cover);
    report_exit(11, 300);
    report_exit(12, 400);
    report_exit(10, 50);
    tag_all();
    /* The root of the outer run has reaped all of it. */
    assert_int_equal(LOOK({0, -1, 5, 750}), 0);
    assert_int_equal(LOOK({0, -1, 5, 750}), 1);
    assert_false(inner->awaits_parent_cover);
    TICK({0, -1, 5, 750});
    const struct run_usage *usage = sampler_usage(collector_sampler(collector), &run->node);
    assert_int_equal(usage->accounted.total_ns / NS_PER_MSEC, 755);
    assert_true(usage->cpu_is_incomplete);
    assert_int_equal(sampler_usage(collector_sampler(collector), &inner->node)->accounted.total_ns /
                         NS_PER_MSEC,
                     750);
}

static void test_parent_that_is_covered_when_found(void **state _unused_)
{
    const struct run_options options = {.run_id = "i", .job_id = "inner"};
    struct run *inner;

    assert_int_equal(registry_add_run(registry, &options, &inner), 0);
    assert_int_equal(registry_add(registry, inner, INT_UNKNOWN, ROOT + 10), 0);
    report_fork(-100, 10);
    tag_all();
    kernel_account_begin(&account);
    assert_int_equal(LOOK({0, -1, 5, 0}), 0);
    assert_int_equal(LOOK({0, -1, 5, 0}), 1);
    assert_int_equal(kernel_account_set_parent(&account, inner, &run->node), 0);
    assert_false(inner->awaits_parent_cover);
    report_exit(10, 50);
    report_exit(0, 6);
    assert_int_equal(cpu_ms(), 56); /* complete */
}

static bool misses_peak(const struct run_node *node)
{
    return !run_usage_has_peak(sampler_usage(collector_sampler(collector), node));
}

static void report_exec_without_peak(int pid)
{
    struct lifecycle_event event;

    lifecycle_event_init(&event, LIFECYCLE_EXEC);
    event.pid = ROOT + pid;
    event.missing_peak_bytes = 4096;
    assert_int_equal(
        kernel_account_add_event(&account, registry_find(registry, ROOT + pid), &event), 0);
}

/* A peak that is not known is at most that of the parent, which may be outside of the step. */
static void test_missing_peak(void **state _unused_)
{
    struct sampler *sampler = collector_sampler(collector);

    tag_all();
    kernel_account_begin(&account);
    LOOK({0, -1, 1, 10});
    assert_int_equal(LOOK({0, -1, 1, 10}), 1);
    report_fork(0, 1);
    report_exec_without_peak(1);
    assert_false(misses_peak(&run->node));
    assert_int_equal(registry_begin_sheet(registry, run, 5, 0), 0);
    assert_int_equal(registry_add(registry, run, 5, ROOT + 1), 0);
    struct member *member = registry_find(registry, ROOT + 1);
    assert_true(member->node != &run->node);
    assert_int_equal(sampler_move(sampler, member->node, member->pid, false), 0);
    assert_false(misses_peak(member->node));
    sampler_move_ended(sampler, member->node, &run->node, &member->ended);
    assert_true(misses_peak(member->node));
    assert_false(misses_peak(&run->node));

    report_fork(0, 2);
    assert_int_equal(registry_begin_sheet(registry, run, 6, 0), 0);
    assert_int_equal(registry_add(registry, run, 6, ROOT + 2), 0);
    member = registry_find(registry, ROOT + 2);
    assert_int_equal(sampler_move(sampler, member->node, member->pid, false), 0);
    report_exec_without_peak(2);
    assert_true(misses_peak(member->node));
    assert_false(misses_peak(&run->node));

    report_fork(0, 3);
    report_exit(0, 1);
    registry_remove(registry, ROOT);
    report_exec_without_peak(3); /* its parent is gone */
    assert_true(misses_peak(&run->node));
    sampler_raise_peak(sampler, &run->node, 4096); /* the missing one is not larger */
    assert_false(misses_peak(&run->node));
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_an_end_without_its_parent),
        T(test_an_end_of_an_orphan),
        T(test_peak_before_the_first_exec),
        T(test_command_that_has_ended),
        T(test_child_that_is_not_reaped_yet),
        T(test_child_reaped_between_checks),
        T(test_late_events_of_child),
        T(test_children_of_one_that_is_not_covered),
        T(test_exiting_child),
        T(test_child_without_a_tag),
        T(test_storm_that_does_not_end),
        T(test_parent_that_is_found_late),
        T(test_parent_that_is_covered_when_found),
        T(test_sleeping_processes_beside_busy_ones),
        T(test_missing_peak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
