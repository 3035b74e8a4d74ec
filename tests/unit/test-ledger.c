#include "unit.h"

#include <string.h>

#include "base/macros.h"
#include "model/field.h"
#include "sample/ledger.h"

#define MS   NS_PER_MSEC
#define MB   (INT64_C(1) << 20)
#define SELF 10 /* sonde's own pid */

static struct ledger *ledger;
static struct run run = {.node.run = &run, .run_id = "r", .job_id = "j", .node.processes = 1};

static int set_up(void **state _unused_)
{
    run.node.processes = 1;
    return ledger_new(SELF, &ledger);
}

static int tear_down(void **state _unused_)
{
    ledger_free(ledger);
    return 0;
}

struct seen {
    pid_t pid, ppid;
    uint64_t own_ms, reaped_ms;
    int64_t rss, shared, peak;
    bool ignores_sigchld;
    struct run *run;                 /* NULL: the only one */
    int64_t written, reaped_written; /* MiB; -1: unknown */
};

/* One tick at which these processes were read. */
static void tick(const struct seen *processes, size_t count)
{
    ledger_begin(ledger, NULL);
    for (size_t i = 0; i < count; i++) {
        const struct seen *p = &processes[i];
        struct process_reading reading = {
            .pid = p->pid,
            .ppid = p->ppid,
            .start_ticks = (uint64_t)p->pid, /* children have greater pids here */
            .cpu_ns = (int64_t)(p->own_ms * MS),
            .user_ns = (int64_t)(p->own_ms * MS),
            .system_ns = 0,
            .reaped_user_ns = (int64_t)(p->reaped_ms * MS),
            .rss_bytes = p->rss ? p->rss * MB : 0,
            .shared_bytes = p->shared * MB,
            .peak_rss_bytes = p->peak ? p->peak * MB : INT_UNKNOWN,
            .ignores_sigchld = p->ignores_sigchld,
            .read_bytes = p->written < 0 ? INT_UNKNOWN : 0,
            .write_bytes = p->written < 0 ? INT_UNKNOWN : p->written * MB,
            .reaped_write_bytes = p->reaped_written * MB,
        };
        assert_int_equal(ledger_observe(ledger, &(p->run ? p->run : &run)->node, &reading), 0);
    }
    ledger_end(ledger);
}

#define TICK(...)                                                                                  \
    do {                                                                                           \
        const struct seen seen_[] = {__VA_ARGS__};                                                 \
        tick(seen_, ARRAY_SIZE(seen_));                                                            \
    } while (0)

static void reap(pid_t pid, uint64_t user_ms, uint64_t system_ms, long peak_kb)
{
    struct rusage usage = {.ru_maxrss = peak_kb};
    usage.ru_utime.tv_sec = (time_t)(user_ms / 1000);
    usage.ru_utime.tv_usec = (suseconds_t)(user_ms % 1000 * 1000);
    usage.ru_stime.tv_sec = (time_t)(system_ms / 1000);
    usage.ru_stime.tv_usec = (suseconds_t)(system_ms % 1000 * 1000);
    assert_int_equal(ledger_reaped(ledger, &run.node, pid, &usage), 0);
}

static uint64_t cpu_ms(void)
{
    return ledger_find(ledger, &run.node)->largest.total_ns / MS;
}

static bool is_incomplete(void)
{
    return ledger_find(ledger, &run.node)->cpu_is_incomplete;
}

static void test_living_processes_add_up(void **state _unused_)
{
    TICK({100, SELF, 500, 0}, {101, 100, 300, 0});
    assert_int_equal(cpu_ms(), 800);
    TICK({100, SELF, 600, 0}, {101, 100, 350, 0});
    assert_int_equal(cpu_ms(), 950);
    assert_false(is_incomplete());
}

static void test_children_that_were_never_seen_count(void **state _unused_)
{
    TICK({100, SELF, 10, 0});
    TICK({100, SELF, 20, 5000}); /* it has reaped a thousand short children */
    assert_int_equal(cpu_ms(), 5020);
    assert_false(is_incomplete());
    assert_true(ledger_find(ledger, &run.node)->cpu_is_rounded); /* so far */
    reap(100, 5000, 27, 1);
    tick(NULL, 0);
    assert_int_equal(ledger_find(ledger, &run.node)->accounted.total_ns / MS, 5027);
    assert_false(ledger_find(ledger, &run.node)->cpu_is_rounded);
}

static void test_a_reaped_child_passes_to_its_parent(void **state _unused_)
{
    TICK({100, SELF, 10, 0}, {101, 100, 700, 0});
    TICK({100, SELF, 10, 720});
    assert_int_equal(cpu_ms(), 730);
    assert_false(is_incomplete());
    reap(100, 600, 130, 1000);
}

static void test_cpu_never_decreases_between_child_and_parent(void **state _unused_)
{
    TICK({100, SELF, 10, 1000}, {101, 100, 700, 0});
    /* the parent was read before it reaped the child, the child after */
    TICK({100, SELF, 10, 1000});
    assert_int_equal(cpu_ms(), 1710);
    TICK({100, SELF, 10, 1705});
    assert_int_equal(cpu_ms(), 1715);
    assert_false(is_incomplete());
}

static void test_a_child_read_just_before_it_was_reaped_is_not_counted_twice(void **state _unused_)
{
    TICK({100, SELF, 10, 0}, {101, 100, 700, 0});
    /* the child was read, then reaped, then the parent was read: 700 stand in both for a moment */
    TICK({101, 100, 700, 0}, {100, SELF, 10, 700});
    TICK({100, SELF, 10, 700});
    TICK({100, SELF, 20, 700});
    assert_int_equal(ledger_find(ledger, &run.node)->accounted.total_ns / MS, 720);
    reap(100, 720, 0, 1000);
    tick(NULL, 0);
    assert_int_equal(ledger_find(ledger, &run.node)->accounted.total_ns / MS, 720);
    assert_false(is_incomplete());
}

static void test_ignored_children_are_a_lower_bound(void **state _unused_)
{
    TICK({100, SELF, 10, 0}, {101, 100, 700, 0});
    TICK({100, SELF, 10, 0}); /* gone, and the parent was credited nothing */
    assert_int_equal(cpu_ms(), 710);
    TICK({100, SELF, 10, 0});
    assert_int_equal(cpu_ms(), 710);
    reap(100, 10, 0, 1000);
    tick(NULL, 0);
    assert_int_equal(cpu_ms(), 710);
    assert_true(is_incomplete());
    assert_true(ledger_find(ledger, &run.node)->rss_is_incomplete);
}

static void test_a_parent_that_ignores_sigchld_is_enough(void **state _unused_)
{
    TICK({.pid = 100, .ppid = SELF, .own_ms = 10, .ignores_sigchld = true});
    assert_false(is_incomplete()); /* it has no children */
    run.node.processes = 2;
    TICK({.pid = 100, .ppid = SELF, .own_ms = 10, .ignores_sigchld = true});
    assert_true(is_incomplete());
}

static void test_a_whole_branch_vanishes_at_once(void **state _unused_)
{
    TICK({100, SELF, 10, 0}, {101, 100, 20, 30}, {102, 101, 400, 0}, {103, 102, 500, 0});
    TICK({100, SELF, 10, 970});
    assert_int_equal(cpu_ms(), 980);
    assert_false(is_incomplete());
    reap(100, 980, 0, 1);
    tick(NULL, 0);
    assert_int_equal(cpu_ms(), 980);
    assert_false(is_incomplete());
}

static void test_rounding_does_not_add_up(void **state _unused_)
{
    /* A thousand children of 15 ms, of which the kernel's ticks show 10 or 20. */
    uint64_t credited = 0;
    for (int i = 1; i <= 1000; i++) {
        TICK({100, SELF, 0, credited}, {100 + i, 100, 15, 0});
        credited = (uint64_t)i * 15 / 10 * 10;
    }
    TICK({100, SELF, 0, credited});
    assert_in_range(cpu_ms(), 14980, 15040);
    reap(100, 15000, 0, 1);
    tick(NULL, 0);
    assert_int_equal(ledger_find(ledger, &run.node)->accounted.total_ns / MS, 15000);
    assert_false(is_incomplete());
}

static void test_children_of_a_reaped_parent_are_not_counted_again(void **state _unused_)
{
    TICK({100, SELF, 10, 0}, {101, 100, 700, 0});
    /* between two ticks the child ends, its parent reaps it and ends, and sonde reaps that */
    reap(100, 715, 0, 1);
    tick(NULL, 0);
    assert_int_equal(cpu_ms(), 715);
    assert_false(is_incomplete());
}

static void test_orphan_outlives_parent(void **state _unused_)
{
    TICK({100, SELF, 10, 0}, {101, 100, 700, 0});
    reap(100, 12, 0, 1);
    TICK({101, SELF, 800, 0});
    assert_int_equal(cpu_ms(), 812);
    reap(101, 850, 0, 1);
    tick(NULL, 0);
    assert_int_equal(cpu_ms(), 862);
    assert_false(is_incomplete());
}

static void test_reaped_without_ever_being_read(void **state _unused_)
{
    reap(100, 3, 2, 1500);
    tick(NULL, 0);
    const struct run_usage *usage = ledger_find(ledger, &run.node);
    assert_int_equal(usage->largest.total_ns / MS, 5);
    assert_int_equal(usage->largest.user_ns / MS, 3);
    assert_true(usage->peak_rss_bytes == 1500 * 1024);
    assert_false(int_is_known(usage->peak_total_bytes));
    assert_false(int_is_known(usage->peak_processes));
    assert_int_equal(usage->samples, 0);
}

static void test_a_reused_pid_does_not_mix(void **state _unused_)
{
    TICK({100, SELF, 10, 0}, {101, 100, 700, 0});
    ledger_begin(ledger, NULL);
    struct process_reading other = {
        .pid = 101, .ppid = 100, .start_ticks = 5000, .cpu_ns = 5 * (int64_t)MS};
    struct process_reading parent = {
        .pid = 100, .ppid = SELF, .start_ticks = 100, .cpu_ns = 10 * (int64_t)MS};
    ledger_observe(ledger, &run.node, &parent);
    ledger_observe(ledger, &run.node, &other);
    ledger_end(ledger);
    assert_int_equal(cpu_ms(), 715);
}

static void test_counters_that_run_backwards(void **state _unused_)
{
    TICK({100, SELF, 500, 300});
    TICK({100, SELF, 400, 200});
    assert_int_equal(cpu_ms(), 800);
}

static void test_memory(void **state _unused_)
{
    TICK({.pid = 100, .ppid = SELF, .rss = 100, .shared = 40, .peak = 110},
         {.pid = 101, .ppid = 100, .rss = 50, .shared = 30, .peak = 300});
    TICK({.pid = 100, .ppid = SELF, .rss = 60, .shared = 40, .peak = 110});
    const struct run_usage *usage = ledger_find(ledger, &run.node);
    assert_true(usage->peak_rss_bytes == 300 * MB); /* the high-water mark of the larger one */
    assert_true(usage->peak_total_bytes == 150 * MB);
    assert_int_equal(usage->peak_processes, 2);
    assert_true(usage->peak_unique_bytes == (60 + 20 + 40 + 30) * MB);
    assert_true(usage->rss_bytes == 60 * MB);
    assert_int_equal(usage->processes, 1);
    assert_int_equal(usage->samples, 2);
    reap(100, 1, 0, 400 * 1024);
    assert_true(ledger_find(ledger, &run.node)->peak_rss_bytes == 400 * MB);
}

static void test_unknown_values_add_nothing(void **state _unused_)
{
    ledger_begin(ledger, NULL);
    struct process_reading reading = {.pid = 100,
                                      .ppid = SELF,
                                      .start_ticks = 1,
                                      .cpu_ns = INT_UNKNOWN,
                                      .user_ns = INT_UNKNOWN,
                                      .reaped_user_ns = INT_UNKNOWN,
                                      .reaped_system_ns = INT_UNKNOWN,
                                      .rss_bytes = INT_UNKNOWN,
                                      .shared_bytes = INT_UNKNOWN,
                                      .peak_rss_bytes = INT_UNKNOWN};
    ledger_observe(ledger, &run.node, &reading);
    ledger_end(ledger);
    assert_int_equal(cpu_ms(), 0);
    assert_false(int_is_known(ledger_find(ledger, &run.node)->peak_rss_bytes));
}

/* ---- runs within runs ---- */

static struct run outer = {
    .node.run = &outer, .run_id = "o", .job_id = "outer", .node.processes = 1};
static struct run inner = {.node.run = &inner,
                           .run_id = "i",
                           .job_id = "inner",
                           .node.processes = 1,
                           .parent = &outer,
                           .node.outer = &outer.node};
static struct run core = {.node.run = &core,
                          .run_id = "c",
                          .job_id = "core",
                          .node.processes = 1,
                          .parent = &inner,
                          .node.outer = &inner.node};
static struct run other = {
    .node.run = &other, .run_id = "x", .job_id = "other", .node.processes = 1};

static uint64_t ms_of(const struct run *of)
{
    return ledger_find(ledger, &of->node)->largest.total_ns / MS;
}

static uint64_t accounted_ms(const struct run *of)
{
    return ledger_find(ledger, &of->node)->accounted.total_ns / MS;
}

static bool is_partial(const struct run *of)
{
    return ledger_find(ledger, &of->node)->cpu_is_incomplete;
}

#define OF(run_) .run = &(run_)
#define P(pid_, ppid_, own_, reaped_, run_)                                                        \
    {                                                                                              \
        .pid = (pid_), .ppid = (ppid_), .own_ms = (own_), .reaped_ms = (reaped_), OF(run_)         \
    }

static void test_an_outer_run_includes_its_inner_ones(void **state _unused_)
{
    TICK(P(100, 1, 100, 0, outer), P(110, 100, 5, 0, outer), P(111, 110, 200, 0, inner),
         P(120, 111, 400, 0, core));
    assert_int_equal(ms_of(&core), 400);
    assert_int_equal(ms_of(&inner), 600);
    assert_int_equal(ms_of(&outer), 705);
    assert_int_equal(ledger_find(ledger, &outer.node)->processes, 4);
    assert_int_equal(ledger_find(ledger, &inner.node)->processes, 2);
}

/* A nested `sonde run` (110) is the outer run's; it reaps the inner run's command (111). */
static void test_reaped_by_outer_process_counts_once(void **state _unused_)
{
    TICK(P(100, 1, 100, 0, outer), P(110, 100, 5, 0, outer), P(111, 110, 700, 0, inner));
    assert_int_equal(ms_of(&outer), 805);
    TICK(P(100, 1, 100, 0, outer), P(110, 100, 5, 720, outer)); /* the command ran for 20 ms more */
    assert_int_equal(ms_of(&inner), 700);                       /* as last read */
    assert_true(is_partial(&inner));
    assert_int_equal(ms_of(&outer), 825);
    assert_false(is_partial(&outer));
    TICK(P(100, 1, 100, 725, outer)); /* 110 is reaped too */
    assert_int_equal(ms_of(&outer), 825);
    assert_int_equal(accounted_ms(&outer), 825);
    assert_int_equal(ms_of(&inner), 700);
}

static void test_outer_cpu_never_decreases(void **state _unused_)
{
    TICK(P(110, 1, 5, 0, outer), P(111, 110, 700, 0, inner));
    TICK(P(110, 1, 5, 0, outer)); /* read before it has reaped the command */
    assert_int_equal(accounted_ms(&inner), 700);
    assert_int_equal(accounted_ms(&outer), 705);
    TICK(P(110, 1, 5, 700, outer), P(112, 110, 50, 0, inner)); /* the inner run continues */
    assert_int_equal(accounted_ms(&inner), 750);
    assert_int_equal(accounted_ms(&outer), 755);
    assert_false(is_partial(&outer));
}

static void test_a_credit_may_come_before_its_debit_between_runs(void **state _unused_)
{
    TICK(P(110, 1, 5, 0, outer), P(111, 110, 700, 0, inner));
    /* the command was read, then reaped, then its parent was read */
    TICK(P(111, 110, 700, 0, inner), P(110, 1, 5, 700, outer));
    TICK(P(110, 1, 5, 700, outer));
    assert_int_equal(accounted_ms(&outer), 705);
    assert_int_equal(accounted_ms(&inner), 700);
}

static void test_a_whole_inner_branch_vanishes_at_once(void **state _unused_)
{
    TICK(P(110, 1, 5, 0, outer), P(111, 110, 100, 0, inner), P(112, 111, 200, 0, inner),
         P(120, 112, 400, 0, core));
    TICK(P(110, 1, 5, 700, outer));
    assert_int_equal(accounted_ms(&core), 400);
    assert_int_equal(accounted_ms(&inner), 700);
    assert_int_equal(accounted_ms(&outer), 705);
    assert_false(is_partial(&outer));
}

/* The middle run also counts the time that passes from its inner run to its outer one. */
static void test_cpu_passes_through_the_run_between(void **state _unused_)
{
    TICK(P(110, 1, 5, 0, outer), P(111, 110, 100, 0, inner), P(120, 110, 400, 0, core));
    TICK(P(110, 1, 5, 400, outer), P(111, 110, 150, 0, inner));
    assert_int_equal(accounted_ms(&core), 400);
    assert_int_equal(accounted_ms(&inner), 550);
    assert_int_equal(accounted_ms(&outer), 555);
}

static void test_inner_process_without_reaper(void **state _unused_)
{
    TICK(P(100, 1, 10, 0, outer), P(111, 1, 300, 0, inner));
    TICK(P(100, 1, 10, 0, outer));
    assert_int_equal(accounted_ms(&inner), 300);
    assert_int_equal(accounted_ms(&outer), 310);
    assert_true(is_partial(&inner));
    assert_true(is_partial(&outer));
}

static void test_an_inner_run_ends(void **state _unused_)
{
    TICK(P(110, 1, 5, 0, outer), P(111, 110, 300, 0, inner), P(112, 110, 200, 0, inner));
    TICK(P(110, 1, 5, 300, outer), P(112, 110, 250, 0, inner));
    assert_int_equal(ms_of(&outer), 555);
    ledger_end_node(ledger, &inner.node); /* 112 lives on in no run */
    assert_null(ledger_find(ledger, &inner.node));
    TICK(P(110, 1, 5, 300, outer));
    assert_int_equal(accounted_ms(&outer), 555);
    TICK(P(110, 1, 5, 600, outer)); /* until it is reaped, with 300 */
    assert_int_equal(accounted_ms(&outer), 605);
    assert_false(is_partial(&outer));
}

static void test_an_inner_run_ends_and_its_process_joins_the_outer_one(void **state _unused_)
{
    TICK(P(110, 1, 5, 0, outer), P(112, 110, 200, 0, inner));
    ledger_end_node(ledger, &inner.node);
    TICK(P(110, 1, 5, 0, outer), P(112, 110, 250, 0, outer));
    assert_int_equal(accounted_ms(&outer), 255);
    assert_false(is_partial(&outer));
}

static void test_an_outer_run_ends_first(void **state _unused_)
{
    TICK(P(110, 1, 5, 0, outer), P(111, 110, 300, 0, inner), P(120, 111, 100, 0, core));
    ledger_end_node(ledger, &outer.node);
    TICK(P(111, 110, 310, 0, inner), P(120, 111, 110, 0, core));
    assert_null(ledger_find(ledger, &outer.node));
    assert_int_equal(accounted_ms(&inner), 420);
    inner.parent = NULL; /* as the registry does */
    inner.node.outer = NULL;
    TICK(P(111, 1, 310, 0, inner), P(120, 111, 120, 0, core));
    assert_int_equal(accounted_ms(&inner), 430);
    inner.parent = &outer;
    inner.node.outer = &outer.node;
}

static void test_a_run_ends_with_what_was_reaped_of_it(void **state _unused_)
{
    struct rusage usage = {.ru_utime.tv_sec = 2, .ru_maxrss = 1024};

    TICK(P(110, SELF, 5, 0, outer));
    assert_int_equal(ledger_reaped(ledger, &inner.node, 111, &usage), 0);
    ledger_end_node(ledger, &inner.node); /* before it was settled */
    TICK(P(110, SELF, 5, 0, outer));
    assert_int_equal(accounted_ms(&outer), 2005);
    assert_true(ledger_find(ledger, &outer.node)->peak_rss_bytes == MB);
    ledger_end_node(ledger, &inner.node); /* the run is not known any more */
}

static void test_process_moves_to_inner_run(void **state _unused_)
{
    TICK(P(110, 1, 5, 0, outer), P(111, 110, 30, 0, outer));
    TICK(P(110, 1, 5, 0, outer), P(111, 110, 90, 0, inner));
    assert_int_equal(accounted_ms(&inner), 90);
    assert_int_equal(accounted_ms(&outer), 95);
    assert_false(is_partial(&outer));
    assert_false(is_partial(&inner));
}

static void test_process_moves_to_another_run(void **state _unused_)
{
    TICK(P(110, 1, 5, 0, outer), P(111, 110, 300, 0, outer));
    TICK(P(110, 1, 15, 0, outer), P(111, 110, 320, 0, other));
    assert_int_equal(accounted_ms(&other), 320);
    assert_int_equal(accounted_ms(&outer), 15);
    assert_int_equal(ms_of(&outer), 305); /* the figure does not decrease, */
    assert_true(is_partial(&outer));      /* but is a lower bound */
    assert_false(is_partial(&other));
}

static void test_memory_of_runs_within_runs(void **state _unused_)
{
    TICK({.pid = 100, .ppid = 1, .rss = 100, .shared = 40, .peak = 110, OF(outer)},
         {.pid = 111, .ppid = 100, .rss = 50, .shared = 30, .peak = 300, OF(inner)},
         {.pid = 120, .ppid = 111, .rss = 30, .shared = 10, .peak = 30, OF(core)});
    TICK({.pid = 100, .ppid = 1, .rss = 60, .shared = 40, .peak = 110, OF(outer)});
    const struct run_usage *all = ledger_find(ledger, &outer.node);
    const struct run_usage *part = ledger_find(ledger, &inner.node);
    assert_true(all->peak_rss_bytes == 300 * MB);
    assert_true(all->peak_total_bytes == 180 * MB);
    assert_int_equal(all->peak_processes, 3);
    assert_int_equal(part->peak_processes, 2);
    assert_true(all->peak_unique_bytes == (60 + 20 + 20 + 40 + 30 + 10) * MB);
    assert_true(all->rss_bytes == 60 * MB);
    assert_true(part->peak_total_bytes == 80 * MB);
    assert_true(part->peak_unique_bytes == (20 + 20 + 30 + 10) * MB);
    assert_true(part->rss_bytes == 0);
    assert_int_equal(part->samples, 1);
    assert_int_equal(all->samples, 2);
}

/* ---- reported exits ---- */

static void born(pid_t pid)
{
    assert_int_equal(ledger_cover(ledger, &run.node, pid, 0, NULL), 0);
}

static void end_of(pid_t pid, int64_t cpu_ms_used)
{
    const struct process_end end = {
        .pid = pid,
        .cpu_ns = int_is_known(cpu_ms_used) ? cpu_ms_used * (int64_t)MS : INT_UNKNOWN,
        .user_ns = int_is_known(cpu_ms_used) ? cpu_ms_used * (int64_t)MS : INT_UNKNOWN,
        .peak_rss_bytes = 7 * MB,
    };
    assert_int_equal(ledger_ended(ledger, &run.node, &end), 0);
}

static void cover(pid_t pid, pid_t ppid, uint64_t own_ms, uint64_t reaped_ms)
{
    const struct process_reading reading = {.pid = pid,
                                            .ppid = ppid,
                                            .start_ticks = (uint64_t)pid,
                                            .cpu_ns = (int64_t)(own_ms * MS),
                                            .user_ns = (int64_t)(own_ms * MS),
                                            .reaped_user_ns = (int64_t)(reaped_ms * MS)};
    assert_int_equal(ledger_cover(ledger, &run.node, pid, (uint64_t)pid, &reading), 0);
}

static void test_reported_exits_count_once(void **state _unused_)
{
    born(20);
    born(21);
    born(22);
    end_of(22, 5); /* never seen */
    TICK({20, SELF, 10, 0}, {21, 20, 4, 0});
    assert_int_equal(cpu_ms(), 19);
    end_of(21, 6);
    /* their time in the parent's counters is not counted again */
    TICK({20, SELF, 12, 11});
    assert_int_equal(cpu_ms(), 23);
    end_of(20, 13);
    tick(NULL, 0);
    assert_int_equal(cpu_ms(), 24);
    const struct run_usage *usage = ledger_find(ledger, &run.node);
    assert_false(usage->cpu_is_incomplete || usage->cpu_is_rounded || usage->rss_is_incomplete);
    assert_int_equal(usage->peak_rss_bytes, 7 * MB);
}

/* It is read once more before it is reaped: that counts as a sample, but adds no use. */
static void test_a_zombie_that_was_counted_is_a_sample(void **state _unused_)
{
    born(20);
    TICK({20, SELF, 10, 0, .rss = 5});
    end_of(20, 13);
    ledger_begin(ledger, NULL);
    assert_int_equal(ledger_observe_ended(ledger, &run.node), 0);
    ledger_end(ledger);
    const struct run_usage *usage = ledger_find(ledger, &run.node);
    assert_int_equal(usage->samples, 2);
    assert_int_equal(usage->processes, 1);
    assert_int_equal(usage->rss_bytes, 0);
    assert_int_equal(cpu_ms(), 13);
    tick(NULL, 0);
    assert_int_equal(usage->samples, 2);
    assert_int_equal(usage->processes, 0);
    assert_int_equal(cpu_ms(), 13);
}

/* They are not waited for, but their exits are reported. */
static void test_ignored_children_are_exact_if_exits_are_reported(void **state _unused_)
{
    run.node.processes = 3;
    born(20);
    born(21);
    TICK({20, SELF, 1, 0, .ignores_sigchld = true}, {21, 20, 2, 0});
    end_of(21, 30);
    TICK({20, SELF, 1, 0, .ignores_sigchld = true});
    assert_int_equal(cpu_ms(), 31);
    assert_false(ledger_find(ledger, &run.node)->cpu_is_incomplete);
}

/* Events begin in the middle: what was reaped before is in the parent's account, also of a child
 * that was seen alive at the last tick. */
static void test_covered_while_it_runs(void **state _unused_)
{
    TICK({20, SELF, 10, 100}, {21, 20, 8, 0}, {22, 20, 3, 0});
    cover(20, SELF, 11, 109); /* 21 was reaped meanwhile, with 9 */
    cover(22, 20, 4, 0);
    ledger_absorb_gone(ledger);
    TICK({20, SELF, 12, 109}, {22, 20, 5, 0});
    assert_int_equal(cpu_ms(), 12 + 109 + 5);
    end_of(22, 6);
    TICK({20, SELF, 12, 115});
    assert_int_equal(cpu_ms(), 12 + 109 + 6);
    end_of(20, 13);
    tick(NULL, 0);
    assert_int_equal(cpu_ms(), 13 + 109 + 6);
    assert_false(ledger_find(ledger, &run.node)->cpu_is_incomplete);
}

/* No tick between that and the end of the parent: the process that would inherit the debit has
 * ended. */
static void test_covered_just_before_the_end(void **state _unused_)
{
    TICK({20, SELF, 1, 0}, {21, 20, 150, 0});
    cover(20, SELF, 1, 155); /* 21 was reaped meanwhile */
    ledger_absorb_gone(ledger);
    end_of(20, 2);
    tick(NULL, 0);
    assert_int_equal(cpu_ms(), 2 + 155);
    assert_false(is_incomplete());
}

/* A whole branch was reaped before its ancestor was covered: the ancestor's account includes all of
 * it, in whatever order the accounts are stored. */
static void test_covered_after_a_branch_is_gone(void **state _unused_)
{
    TICK({20, SELF, 1, 0}, {21, 20, 30, 0}, {22, 21, 40, 0}, {23, 22, 50, 0}, {24, 23, 60, 0});
    cover(20, SELF, 1, 184);
    ledger_absorb_gone(ledger);
    TICK({20, SELF, 1, 184});
    assert_int_equal(cpu_ms(), 185);
    end_of(20, 2);
    tick(NULL, 0);
    assert_int_equal(cpu_ms(), 186);
    assert_false(is_incomplete());
}

/* A process that was not known when its parent was covered: its exit is not reported, and only its
 * last sample is known. */
static void test_vanished_child_of_covered_process(void **state _unused_)
{
    born(20);
    TICK({20, SELF, 1, 0}, {21, 20, 50, 0});
    TICK({20, SELF, 1, 55});
    assert_int_equal(ledger_find(ledger, &run.node)->accounted.total_ns / MS, 51);
    assert_true(is_incomplete());
}

/* A child that vanished at the last tick, and was reaped after its parent had been read. */
static void test_covered_while_a_figure_is_on_its_way(void **state _unused_)
{
    TICK({20, SELF, 10, 0}, {21, 20, 150, 0});
    TICK({20, SELF, 10, 0}); /* 21 is a debit now */
    cover(20, SELF, 10, 155);
    tick(&(struct seen){20, SELF, 10, 155}, 1);
    assert_int_equal(cpu_ms(), 10 + 155);
    end_of(20, 11);
    tick(NULL, 0);
    assert_int_equal(cpu_ms(), 11 + 155);
}

static void test_discarded_children_stay_unknown(void **state _unused_)
{
    const struct process_reading reading = {
        .pid = 20, .ppid = SELF, .start_ticks = 20, .ignores_sigchld = true};

    run.node.processes = 2;
    assert_int_equal(ledger_cover(ledger, &run.node, 20, 20, &reading), 0);
    TICK({20, SELF, 1, 0, .ignores_sigchld = true});
    assert_true(ledger_find(ledger, &run.node)->cpu_is_incomplete);
}

static void test_reported_exit_without_cpu_time(void **state _unused_)
{
    born(20);
    born(21);
    TICK({20, SELF, 1, 0}, {21, 20, 8, 0});
    end_of(21, INT_UNKNOWN); /* the last sample counts */
    TICK({20, SELF, 1, 0});
    assert_int_equal(cpu_ms(), 9);
    assert_true(ledger_find(ledger, &run.node)->cpu_is_incomplete);
}

/* The process is gone and its exit event may still come; after some time the event counts as lost.
 * */
static void test_lost_exit_report(void **state _unused_)
{
    born(20);
    born(21);
    TICK({20, SELF, 1, 0}, {21, 20, 8, 0});
    for (int i = 0; i < 2; i++) {
        TICK({20, SELF, 1, 0});
        assert_false(ledger_find(ledger, &run.node)->cpu_is_incomplete);
    }
    TICK({20, SELF, 1, 0});
    assert_int_equal(cpu_ms(), 9);
    assert_true(ledger_find(ledger, &run.node)->cpu_is_incomplete);
}

/* An ending process that does not get the CPU: its parent has reaped it long before its exit is
 * complete. */
static void test_late_exit_report_is_not_lost(void **state _unused_)
{
    born(20);
    born(21);
    TICK({20, SELF, 1, 0}, {21, 20, 8, 0});
    for (int i = 0; i < 10; i++) {
        ledger_await_end(ledger, 21);
        TICK({20, SELF, 1, 9});
        assert_int_equal(cpu_ms(), 9);
    }
    end_of(21, 9);
    TICK({20, SELF, 1, 9});
    assert_int_equal(cpu_ms(), 10);
    assert_false(is_incomplete());
    ledger_await_end(ledger, 21); /* unknown by now */
}

/* It was read before its fork event: one process, one account. */
static void test_late_fork_event_keeps_account(void **state _unused_)
{
    born(20);
    TICK({20, SELF, 1, 0}, {21, 20, 8, 0});
    assert_int_equal(ledger_cover(ledger, &run.node, 21, 21, NULL), 0);
    TICK({20, SELF, 1, 0}, {21, 20, 9, 0});
    assert_int_equal(cpu_ms(), 10);
    end_of(21, 9);
    TICK({20, SELF, 1, 9});
    assert_int_equal(cpu_ms(), 10);
    assert_false(ledger_find(ledger, &run.node)->cpu_is_incomplete);
}

/* sonde has reaped it, but its exit event was lost: the figures of wait4 include those of its
 * children, which were reported. */
static void test_reaped_without_exit_report(void **state _unused_)
{
    born(20);
    born(21);
    TICK({20, SELF, 5, 0}, {21, 20, 8, 0});
    end_of(21, 9);
    TICK({20, SELF, 6, 9});
    reap(20, 16, 0, 1000);
    tick(NULL, 0);
    assert_int_equal(cpu_ms(), 15);
    assert_true(ledger_find(ledger, &run.node)->cpu_is_incomplete);
}

static void test_lost_events_leave_nothing_exact(void **state _unused_)
{
    born(20);
    TICK({20, SELF, 5, 0});
    assert_false(is_incomplete());
    ledger_mark_incomplete(ledger);
    end_of(20, 6);
    tick(NULL, 0);
    assert_true(is_incomplete());
}

static void test_reused_pid_after_end(void **state _unused_)
{
    born(20);
    born(21);
    TICK({20, SELF, 1, 0}, {21, 20, 8, 0});
    end_of(21, 9);
    born(21);
    TICK({20, SELF, 1, 9}, {21, 20, 2, 0});
    assert_int_equal(cpu_ms(), 12);
    born(21); /* the exit of the former process was lost */
    end_of(21, 3);
    TICK({20, SELF, 1, 9});
    assert_int_equal(cpu_ms(), 15);
    assert_true(ledger_find(ledger, &run.node)->cpu_is_incomplete);
}

/* ---- parents that are found late ---- */

static void born_in(struct run *of, pid_t pid)
{
    assert_int_equal(ledger_cover(ledger, &of->node, pid, 0, NULL), 0);
}

static void end_in(struct run *of, pid_t pid, int64_t cpu_ms_used, int64_t peak)
{
    const struct process_end end = {.pid = pid,
                                    .cpu_ns = cpu_ms_used * (int64_t)MS,
                                    .user_ns = cpu_ms_used * (int64_t)MS,
                                    .peak_rss_bytes = peak * MB};
    assert_int_equal(ledger_ended(ledger, &of->node, &end), 0);
}

static void set_parent(struct run *of, struct run *parent)
{
    assert_int_equal(ledger_set_outer(ledger, &of->node, &parent->node), 0);
    of->parent = parent;
    of->node.outer = &parent->node;
}

static void test_late_parent_misses_what_had_ended(void **state _unused_)
{
    struct run late = {.node.run = &late, .run_id = "l", .node.processes = 1},
               around = {.node.run = &around, .run_id = "a", .node.processes = 1};

    born_in(&late, 111);
    born_in(&late, 112);
    end_in(&late, 112, 3000, 50);
    TICK({111, 100, 10, 3000, .rss = 30, OF(late)});
    born_in(&around, 100);
    set_parent(&late, &around);
    end_in(&late, 111, 20, 9);
    end_in(&around, 100, 5, 4);
    tick(NULL, 0);
    assert_int_equal(accounted_ms(&late), 3020);
    assert_false(is_partial(&late));
    /* its processes may have reaped a part of the 3000, so the 3000 are not added */
    assert_int_equal(accounted_ms(&around), 25);
    assert_true(is_partial(&around));
    const struct run_usage *usage = ledger_find(ledger, &around.node);
    assert_false(usage->rss_is_incomplete);
    assert_int_equal(usage->peak_rss_bytes, 50 * MB);
    assert_int_equal(usage->peak_total_bytes, 30 * MB);
    assert_int_equal(usage->peak_unique_bytes, 30 * MB);
}

static void test_late_parent_misses_nothing_if_nothing_had_ended(void **state _unused_)
{
    struct run late = {.node.run = &late, .run_id = "l", .node.processes = 1},
               around = {.node.run = &around, .run_id = "a", .node.processes = 1};

    born_in(&late, 111);
    born_in(&late, 112);
    TICK({111, 100, 10, 0, OF(late)}, {112, 111, 100, 0, OF(late)});
    set_parent(&late, &around); /* before any of its own processes is known */
    end_in(&late, 112, 3000, 50);
    born_in(&around, 100);
    end_in(&late, 111, 20, 9);
    end_in(&around, 100, 5, 4);
    tick(NULL, 0);
    assert_int_equal(accounted_ms(&around), 3025);
    assert_false(is_partial(&around));
}

static void test_late_parent_of_an_incomplete_run(void **state _unused_)
{
    struct run late = {.node.run = &late, .run_id = "l", .node.processes = 1},
               around = {.node.run = &around, .run_id = "a", .node.processes = 1};

    born_in(&late, 111);
    ledger_mark_incomplete(ledger);
    born_in(&around, 100);
    set_parent(&late, &around);
    assert_true(is_partial(&around));
    assert_true(ledger_find(ledger, &around.node)->rss_is_incomplete);
}

/* The run around both had the time of the inner one from the beginning. */
static void test_late_parent_between_two_runs(void **state _unused_)
{
    struct run around = {.node.run = &around, .run_id = "a", .node.processes = 1};
    struct run between = {.node.run = &between,
                          .run_id = "b",
                          .node.processes = 1,
                          .parent = &around,
                          .node.outer = &around.node};
    struct run late = {.node.run = &late,
                       .run_id = "l",
                       .node.processes = 1,
                       .parent = &around,
                       .node.outer = &around.node};

    born_in(&around, 100);
    born_in(&late, 111);
    born_in(&late, 112);
    end_in(&late, 112, 3000, 50);
    set_parent(&late, &between);
    end_in(&late, 111, 20, 9);
    tick(NULL, 0);
    assert_int_equal(accounted_ms(&around), 3020);
    assert_false(is_partial(&around));
    assert_int_equal(accounted_ms(&between), 20);
    assert_true(is_partial(&between));
}

/* What its process reaps before it is covered is not counted a second time. */
static void test_late_parent_that_is_covered_later(void **state _unused_)
{
    struct run late = {.node.run = &late, .run_id = "l", .node.processes = 1},
               around = {.node.run = &around, .run_id = "a", .node.processes = 1};

    born_in(&late, 111);
    born_in(&late, 112);
    set_parent(&late, &around);
    late.awaits_parent_cover = true;
    TICK({100, 1, 5, 0, OF(around)}, {111, 100, 10, 0, OF(late)});
    end_in(&late, 111, 200, 9);
    TICK({100, 1, 5, 200, OF(around)}, {112, 1, 0, 0, OF(late)});
    assert_int_equal(accounted_ms(&late), 200);
    assert_int_equal(accounted_ms(&around), 205);
    assert_true(is_partial(&around));
    late.awaits_parent_cover = false;
    end_in(&late, 112, 1000, 9);
    TICK({100, 1, 5, 200, OF(around)});
    assert_int_equal(accounted_ms(&around), 1205);
    assert_false(is_partial(&late));
}

/* Random trees of processes in nested runs: whichever process reaps, and whenever, no figure
 * decreases, and in the end the outermost run has the sum of all. */
static void test_random_process_trees(void **state _unused_)
{
    struct run *const runs[] = {&outer, &inner, &core};
    unsigned random = 1;
#define RANDOM(n) ((random = random * 1103515245 + 12345) >> 16) % (n)

    for (int round = 0; round < 200; round++) {
        struct seen p[12] = {{.pid = 100, .ppid = SELF, OF(outer)}};
        size_t count = 1;
        uint64_t used_ms = 0, last[3] = {0};
        for (int step = 0; step < 60; step++) {
            unsigned what = RANDOM(4);
            if (what == 0 && count < ARRAY_SIZE(p)) { /* a child, in its run or a deeper one */
                size_t parent = RANDOM(count);
                size_t depth = 0;
                while (runs[depth] != p[parent].run)
                    depth++;
                depth = MIN(depth + RANDOM(2), (size_t)2);
                p[count] = (struct seen){
                    .pid = 101 + round * 100 + step, .ppid = p[parent].pid, .run = runs[depth]};
                count++;
            } else if (what == 1 && count > 1) { /* a leaf ends and is reaped */
                size_t parent = 0;
                count--;
                while (p[parent].pid != p[count].ppid)
                    parent++;
                p[parent].reaped_ms += p[count].own_ms + p[count].reaped_ms;
            } else { /* a process works: more than rounding */
                size_t i = RANDOM(count);
                p[i].own_ms += 100;
                used_ms += 100;
            }
            if (RANDOM(2))
                continue;
            tick(p, count);
            for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
                const struct run_usage *usage = ledger_find(ledger, &runs[i]->node);
                if (!usage)
                    continue;
                assert_true(usage->accounted.total_ns / MS >= last[i]);
                last[i] = usage->accounted.total_ns / MS;
            }
            assert_int_equal(accounted_ms(&outer), used_ms);
        }
        for (size_t i = 0; i < ARRAY_SIZE(runs); i++)
            ledger_end_node(ledger, &runs[ARRAY_SIZE(runs) - 1 - i]->node);
    }
}

/* ---- steps ---- */

/* A run with one step. The registry keeps the node of the step within that of the run. */
static struct run job = {.node.run = &job, .run_id = "j", .job_id = "job", .node.processes = 1};
static struct run_node step = {.run = &job, .outer = &job.node};

static void observe_in(const struct run_node *root, const struct run_node *node, pid_t pid,
                       uint64_t own_ms, int64_t peak)
{
    const struct process_reading reading = {.pid = pid,
                                            .ppid = 1,
                                            .start_ticks = (uint64_t)pid,
                                            .cpu_ns = (int64_t)(own_ms * MS),
                                            .rss_bytes = MB,
                                            .peak_rss_bytes = peak * MB};
    ledger_begin(ledger, root);
    assert_int_equal(ledger_observe(ledger, node, &reading), 0);
    ledger_end(ledger);
}

static uint64_t ms_in(const struct run_node *node)
{
    return ledger_find(ledger, node)->accounted.total_ns / MS;
}

static void test_a_step_is_frozen_at_its_end(void **state _unused_)
{
    assert_int_equal(ledger_cover(ledger, &step, 20, 20, NULL), 0);
    assert_int_equal(ledger_cover(ledger, &step, 21, 21, NULL), 0);
    const struct process_end end = {.pid = 21, .cpu_ns = 300 * MS, .peak_rss_bytes = 9 * MB};
    assert_int_equal(ledger_ended(ledger, &step, &end), 0);
    observe_in(NULL, &step, 20, 50, 2);
    assert_int_equal(ms_in(&step), 350);
    ledger_end_step(ledger, &step);
    assert_int_equal(ms_in(&step), 350);
    assert_int_equal(ledger_find(ledger, &step)->peak_rss_bytes / MB, 9);

    observe_in(NULL, &job.node, 20, 80, 30);
    assert_int_equal(ms_in(&step), 350);
    assert_int_equal(ms_in(&job.node), 380);
    assert_int_equal(ledger_find(ledger, &step)->peak_rss_bytes / MB, 9);
    assert_false(ledger_find(ledger, &step)->cpu_is_incomplete);
    assert_false(ledger_find(ledger, &job.node)->cpu_is_incomplete);

    assert_int_equal(ledger_cover(ledger, &step, 22, 22, NULL), 0); /* it starts again */
    const struct process_end more = {.pid = 22, .cpu_ns = 7 * MS, .peak_rss_bytes = 1 * MB};
    assert_int_equal(ledger_ended(ledger, &step, &more), 0);
    observe_in(NULL, &job.node, 20, 80, 30);
    assert_int_equal(ms_in(&step), 357);
    assert_int_equal(ms_in(&job.node), 387);
    ledger_end_node(ledger, &step);
    ledger_end_node(ledger, &job.node);
}

static void test_a_process_enters_a_step_late(void **state _unused_)
{
    observe_in(NULL, &job.node, 20, 500, 40);
    assert_int_equal(ledger_move(ledger, &step, 20, true), 0);
    observe_in(NULL, &step, 20, 530, 40);
    assert_int_equal(ms_in(&step), 30);
    assert_int_equal(ms_in(&job.node), 530);
    /* Its high-water mark may be from before. */
    assert_int_equal(ledger_find(ledger, &step)->peak_rss_bytes / MB, 1);
    assert_true(ledger_find(ledger, &step)->rss_is_incomplete);
    assert_false(ledger_find(ledger, &job.node)->rss_is_incomplete);
    observe_in(NULL, &step, 20, 540, 41);
    assert_int_equal(ledger_find(ledger, &step)->peak_rss_bytes / MB, 41);
    ledger_end_step(ledger, &step);

    assert_int_equal(ledger_move(ledger, &step, 20, true), 0); /* again */
    observe_in(NULL, &step, 20, 545, 41);
    assert_int_equal(ms_in(&step), 45);
    assert_int_equal(ms_in(&job.node), 545);
    ledger_end_node(ledger, &step);
    ledger_end_node(ledger, &job.node);
}

static void test_a_process_belongs_to_a_step_since_its_birth(void **state _unused_)
{
    observe_in(NULL, &job.node, 20, 500, 40);
    assert_int_equal(ledger_move(ledger, &step, 20, false), 0);
    assert_int_equal(ledger_move(ledger, &step, 99, false), 0); /* never observed */
    observe_in(NULL, &step, 20, 530, 40);
    assert_int_equal(ms_in(&step), 530);
    assert_int_equal(ms_in(&job.node), 530);
    assert_int_equal(ledger_find(ledger, &step)->peak_rss_bytes / MB, 40);
    ledger_end_node(ledger, &step);
    ledger_end_node(ledger, &job.node);
}

/* Processes of other runs are neither read nor missing. */
static void test_a_reading_of_one_run(void **state _unused_)
{
    TICK(P(100, 1, 10, 0, outer), P(200, 1, 20, 0, other));
    observe_in(&outer.node, &outer.node, 100, 15, 1);
    assert_int_equal(accounted_ms(&outer), 15);
    assert_int_equal(accounted_ms(&other), 20);
    assert_int_equal(ledger_find(ledger, &other.node)->processes, 1);
    assert_false(is_partial(&other));
    TICK(P(100, 1, 15, 0, outer), P(200, 1, 25, 0, other));
    assert_int_equal(accounted_ms(&other), 25);
    assert_false(is_partial(&other));
}

static void test_an_end_without_a_report(void **state _unused_)
{
    observe_in(NULL, &step, 20, 500, 40);
    ledger_miss_end(ledger, &step, &job.node); /* a process of the run reaps it */
    assert_true(ledger_find(ledger, &step)->cpu_is_incomplete);
    assert_false(ledger_find(ledger, &job.node)->cpu_is_incomplete);
    ledger_miss_end(ledger, &step, NULL);
    assert_true(ledger_find(ledger, &job.node)->cpu_is_incomplete);
    ledger_end_node(ledger, &step);
    ledger_end_node(ledger, &job.node);
}

/* ---- I/O ---- */

static const struct run_usage *usage_now(void)
{
    return ledger_find(ledger, &run.node);
}

static void reap_written(pid_t pid, int64_t written)
{
    const struct rusage usage = {.ru_oublock = written * MB / 512};

    assert_int_equal(ledger_reaped(ledger, &run.node, pid, &usage), 0);
    tick(NULL, 0);
}

/* The kernel adds the I/O of a reaped child to its parent. */
static void test_io_of_a_reaped_child_counts_once(void **state _unused_)
{
    TICK({100, SELF, .written = 1}, {101, 100, .written = 2}, {102, 101, .written = 60});
    assert_int_equal(usage_now()->accounted.write_bytes / MB, 63);
    TICK({100, SELF, .written = 1}, {101, 100, .written = 2, .reaped_written = 65});
    assert_int_equal(usage_now()->accounted.write_bytes / MB, 68);
    TICK({100, SELF, .written = 1, .reaped_written = 67});
    assert_int_equal(usage_now()->accounted.write_bytes / MB, 68);
    assert_true(run_usage_has_io(usage_now()));
    reap_written(100, 69);
    assert_int_equal(usage_now()->accounted.write_bytes / MB, 69);
    assert_true(run_usage_has_io(usage_now()));
}

/* However little CPU time the child used: I/O is not rounded. */
static void test_discarded_io_is_missing(void **state _unused_)
{
    TICK({100, SELF}, {101, 100, .own_ms = 1, .written = 60});
    TICK({100, SELF});
    assert_int_equal(usage_now()->accounted.write_bytes / MB, 60);
    reap_written(100, 0);
    assert_int_equal(usage_now()->accounted.write_bytes / MB, 60);
    assert_false(run_usage_has_io(usage_now()));
}

static void test_unknown_io_is_a_lower_bound_while_the_process_lives(void **state _unused_)
{
    TICK({100, SELF, .written = 5}, {101, 100, .written = -1});
    assert_int_equal(usage_now()->accounted.write_bytes / MB, 5);
    assert_false(run_usage_has_io(usage_now()));
    TICK({100, SELF, .written = 5, .reaped_written = 3});
    assert_int_equal(usage_now()->accounted.write_bytes / MB, 8);
    assert_true(run_usage_has_io(usage_now()));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_living_processes_add_up),
        T(test_children_that_were_never_seen_count),
        T(test_a_reaped_child_passes_to_its_parent),
        T(test_cpu_never_decreases_between_child_and_parent),
        T(test_a_child_read_just_before_it_was_reaped_is_not_counted_twice),
        T(test_ignored_children_are_a_lower_bound),
        T(test_a_parent_that_ignores_sigchld_is_enough),
        T(test_a_whole_branch_vanishes_at_once),
        T(test_rounding_does_not_add_up),
        T(test_children_of_a_reaped_parent_are_not_counted_again),
        T(test_orphan_outlives_parent),
        T(test_reaped_without_ever_being_read),
        T(test_a_reused_pid_does_not_mix),
        T(test_counters_that_run_backwards),
        T(test_memory),
        T(test_unknown_values_add_nothing),
        T(test_io_of_a_reaped_child_counts_once),
        T(test_discarded_io_is_missing),
        T(test_unknown_io_is_a_lower_bound_while_the_process_lives),
        T(test_an_outer_run_includes_its_inner_ones),
        T(test_reaped_by_outer_process_counts_once),
        T(test_outer_cpu_never_decreases),
        T(test_a_credit_may_come_before_its_debit_between_runs),
        T(test_a_whole_inner_branch_vanishes_at_once),
        T(test_cpu_passes_through_the_run_between),
        T(test_inner_process_without_reaper),
        T(test_an_inner_run_ends),
        T(test_an_inner_run_ends_and_its_process_joins_the_outer_one),
        T(test_an_outer_run_ends_first),
        T(test_a_run_ends_with_what_was_reaped_of_it),
        T(test_process_moves_to_inner_run),
        T(test_process_moves_to_another_run),
        T(test_memory_of_runs_within_runs),
        T(test_reported_exits_count_once),
        T(test_a_zombie_that_was_counted_is_a_sample),
        T(test_ignored_children_are_exact_if_exits_are_reported),
        T(test_covered_while_it_runs),
        T(test_covered_just_before_the_end),
        T(test_covered_after_a_branch_is_gone),
        T(test_vanished_child_of_covered_process),
        T(test_covered_while_a_figure_is_on_its_way),
        T(test_discarded_children_stay_unknown),
        T(test_reported_exit_without_cpu_time),
        T(test_lost_exit_report),
        T(test_late_exit_report_is_not_lost),
        T(test_late_fork_event_keeps_account),
        T(test_reaped_without_exit_report),
        T(test_lost_events_leave_nothing_exact),
        T(test_reused_pid_after_end),
        T(test_late_parent_misses_what_had_ended),
        T(test_late_parent_misses_nothing_if_nothing_had_ended),
        T(test_late_parent_of_an_incomplete_run),
        T(test_late_parent_between_two_runs),
        T(test_late_parent_that_is_covered_later),
        T(test_a_step_is_frozen_at_its_end),
        T(test_a_process_enters_a_step_late),
        T(test_a_process_belongs_to_a_step_since_its_birth),
        T(test_a_reading_of_one_run),
        T(test_an_end_without_a_report),
        T(test_random_process_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
