/* The memory of several processes with shared pages counted once: an interval that contains the
 * truth, which each test knows. */
#include "unit.h"

#include "base/macros.h"
#include "model/field.h"
#include "sample/ledger.h"

#define MB   (INT64_C(1) << 20)
#define PAGE 4096

static struct ledger *ledger;
static struct run outer = {.node.run = &outer},
                  inner = {.node = {.run = &inner, .outer = &outer.node}};

static int set_up(void **state _unused_)
{
    int r = ledger_new(10, &ledger);
    if (r == 0)
        ledger_set_bounds(
            ledger,
            &(struct memory_bounds){.total_bytes = INT64_MAX, .fault_bytes = PAGE, .at_ticks = 50},
            true);
    return r;
}

static int tear_down(void **state _unused_)
{
    ledger_free(ledger);
    return 0;
}

/* Sizes in MB; `faulted` as many MB of page faults. Children have greater pids. */
struct seen {
    pid_t pid, ppid;
    int64_t anon, file, shmem, faulted;
    bool is_copy;
    uint64_t program; /* 0: that of all */
    int64_t peak;     /* 0: the present sum */
    uint64_t memory;
    bool shmem_is_unknown;
    const struct run *run; /* NULL: outer */
};

static void tick(const struct seen *processes, size_t count)
{
    ledger_begin(ledger, NULL);
    for (size_t i = 0; i < count; i++) {
        const struct seen *p = &processes[i];
        int64_t rss = p->anon + p->file + p->shmem;
        const struct process_reading reading = {
            .pid = p->pid,
            .ppid = p->ppid,
            .start_ticks = (uint64_t)p->pid,
            .rss_bytes = rss * MB,
            .shared_bytes = (p->file + p->shmem) * MB,
            .shmem_bytes = p->shmem_is_unknown ? INT_UNKNOWN : p->shmem * MB,
            .faults = p->faulted * MB / PAGE,
            .peak_rss_bytes = MAX(rss, p->peak) * MB,
            .arg_start = p->program ? p->program : 7,
            .memory_id = p->memory,
            .is_forked = p->is_copy,
        };
        const struct run *run = p->run ? p->run : &outer;
        assert_int_equal(ledger_observe(ledger, &run->node, &reading), 0);
    }
    ledger_end(ledger);
}

#define TICK(...)                                                                                  \
    do {                                                                                           \
        const struct seen seen_[] = {__VA_ARGS__};                                                 \
        tick(seen_, ARRAY_SIZE(seen_));                                                            \
    } while (0)

static void check_run(const struct run *run, int64_t min_mb, int64_t max_mb)
{
    const struct run_usage *usage = ledger_find(ledger, &run->node);

    if (usage->unique_min_bytes != min_mb * MB || usage->unique_bytes != max_mb * MB)
        fail_msg("%.1f to %.1f MB, not %d to %d", (double)usage->unique_min_bytes / (double)MB,
                 (double)usage->unique_bytes / (double)MB, (int)min_mb, (int)max_mb);
}

static void check(int64_t min_mb, int64_t max_mb)
{
    check_run(&outer, min_mb, max_mb);
}

/* ---- files and shared memory ---- */

static void test_files_are_between_the_largest_and_the_sum(void **state _unused_)
{
    TICK({100, 1, .anon = 10, .file = 40, .program = 1},
         {101, 1, .anon = 5, .file = 30, .program = 2});
    check(10 + 5 + 40, 10 + 5 + 70);
}

static void test_distinct_shared_memory(void **state _unused_)
{
    TICK({100, 1, .shmem = 100, .file = 1, .program = 1},
         {101, 100, .shmem = 100, .file = 2, .program = 2},
         {102, 100, .shmem = 80, .file = 2, .program = 3});
    check(100 + 2, 280 + 5);
}

/* The largest file part and the largest shared memory are in different processes. */
static void test_files_and_shared_memory_are_different(void **state _unused_)
{
    TICK({100, 1, .shmem = 50, .file = 1, .program = 1}, {101, 100, .file = 30, .program = 2});
    check(50 + 30, 81);
    TICK({100, 1, .shmem = 50, .file = 1, .program = 1, .shmem_is_unknown = true},
         {101, 100, .file = 30, .program = 2, .shmem_is_unknown = true});
    check(51, 81);
}

/* ---- forks ---- */

static void test_copy_counts_with_its_faults(void **state _unused_)
{
    TICK({100, 1, .anon = 400, .faulted = 400});
    TICK({100, 1, .anon = 400, .faulted = 400},
         {101, 100, .anon = 400, .faulted = 0, .is_copy = true},
         {102, 100, .anon = 400, .faulted = 50, .is_copy = true});
    check(400, 450);
}

/* The copies keep the pages that the parent has copied since. */
static void test_faults_of_the_parent_count(void **state _unused_)
{
    TICK({100, 1, .anon = 400, .faulted = 400});
    TICK({100, 1, .anon = 400, .faulted = 430}, {101, 100, .anon = 400, .is_copy = true},
         {102, 100, .anon = 400, .is_copy = true});
    check(400, 430);
}

static void test_freed_memory_of_the_parent_counts(void **state _unused_)
{
    TICK({100, 1, .anon = 400, .faulted = 400});
    TICK({100, 1, .anon = 400, .faulted = 400, .peak = 400},
         {101, 100, .anon = 400, .is_copy = true});
    TICK({100, 1, .anon = 10, .faulted = 400, .peak = 400},
         {101, 100, .anon = 400, .is_copy = true});
    check(400, 400);
}

static void test_own_memory_of_copies(void **state _unused_)
{
    TICK({100, 1, .anon = 50, .faulted = 50});
    TICK({100, 1, .anon = 50, .faulted = 50}, {101, 100, .anon = 50, .is_copy = true},
         {102, 100, .anon = 50, .is_copy = true});
    TICK({100, 1, .anon = 50, .faulted = 50},
         {101, 100, .anon = 250, .faulted = 210, .is_copy = true},
         {102, 100, .anon = 350, .faulted = 300, .is_copy = true});
    check(50 + 200 + 300, 50 + 210 + 300);
}

/* Nothing is known of the time before the first reading: the parent may have freed everything that
 * it has faulted in and does not have. */
static void test_fork_before_the_first_reading(void **state _unused_)
{
    TICK({100, 1, .anon = 300, .faulted = 400, .peak = 400},
         {101, 100, .anon = 300, .is_copy = true});
    check(300, 400);
    TICK({100, 1, .anon = 300, .faulted = 400, .peak = 400},
         {101, 100, .anon = 500, .faulted = 200, .peak = 500, .is_copy = true});
    check(500, 300 + 200 + 100);
}

static void test_copies_of_copies(void **state _unused_)
{
    TICK({100, 1, .anon = 200, .faulted = 200});
    TICK({100, 1, .anon = 200, .faulted = 200},
         {101, 100, .anon = 300, .faulted = 100, .is_copy = true});
    TICK({100, 1, .anon = 200, .faulted = 200},
         {101, 100, .anon = 300, .faulted = 100, .is_copy = true},
         {102, 101, .anon = 300, .is_copy = true});
    check(300, 300);
    /* The first copy writes to 40 MB of what it has added: the second keeps them. */
    TICK({100, 1, .anon = 200, .faulted = 200},
         {101, 100, .anon = 300, .faulted = 140, .is_copy = true},
         {102, 101, .anon = 300, .is_copy = true});
    check(300, 340);
}

static void test_exec_ends_sharing(void **state _unused_)
{
    TICK({100, 1, .anon = 400, .faulted = 400});
    TICK({100, 1, .anon = 400, .faulted = 400}, {101, 100, .anon = 400, .is_copy = true});
    check(400, 400);
    TICK({100, 1, .anon = 400, .faulted = 400},
         {101, 100, .anon = 100, .faulted = 5, .program = 8});
    check(500, 500);
    /* the parent: its copy has the pages that it has left */
    TICK({100, 1, .anon = 400, .faulted = 400}, {102, 100, .anon = 400, .is_copy = true});
    TICK({100, 1, .anon = 30, .faulted = 430, .program = 9},
         {102, 100, .anon = 400, .is_copy = true});
    check(400, 430);
}

/* Then the others share with each other, which cannot be seen. */
static void test_parent_that_has_ended(void **state _unused_)
{
    TICK({100, 1, .anon = 400, .faulted = 400});
    TICK({100, 1, .anon = 400, .faulted = 400}, {101, 100, .anon = 400, .is_copy = true},
         {102, 100, .anon = 400, .is_copy = true});
    TICK({101, 1, .anon = 400, .is_copy = true}, {102, 1, .anon = 400, .is_copy = true});
    check(400, 800);
}

/* An orphan was not forked by the process that has adopted it, which runs another program. */
static void test_adopted_orphan(void **state _unused_)
{
    TICK({100, 1, .anon = 500, .faulted = 500, .program = 1});
    TICK({100, 1, .anon = 500, .faulted = 500, .program = 1},
         {102, 100, .anon = 400, .is_copy = true, .program = 2});
    check(500, 900);
}

/* A vfork: until its exec the child uses the memory of its parent. */
static void test_shared_memory_map_counts_once(void **state _unused_)
{
    TICK({100, 1, .anon = 400, .file = 5, .faulted = 400, .memory = 1});
    TICK({100, 1, .anon = 400, .file = 5, .faulted = 400, .memory = 1},
         {101, 100, .anon = 400, .file = 5, .faulted = 3, .is_copy = true, .memory = 1});
    check(405, 405);
    TICK({100, 1, .anon = 400, .file = 5, .faulted = 400, .memory = 1},
         {101, 100, .anon = 400, .file = 5, .faulted = 3, .is_copy = true, .memory = 2});
    check(405, 400 + 3 + 10);
}

/* ---- bounds ---- */

static void put_bounds(int64_t total_mb, int64_t huge_mb, uint64_t at_ticks, bool is_full_tick)
{
    ledger_set_bounds(ledger,
                      &(struct memory_bounds){.total_bytes = total_mb * MB,
                                              .fault_bytes = PAGE,
                                              .huge_bytes = (uint64_t)(huge_mb * MB),
                                              .at_ticks = at_ticks},
                      is_full_tick);
}

static void set_bounds(int64_t total_mb, int64_t huge_mb, uint64_t at_ticks)
{
    put_bounds(total_mb, huge_mb, at_ticks, true);
}

/* A single fault can add 2 MB then. Pages that were made before the fork do not count. */
static void test_huge_pages(void **state _unused_)
{
    set_bounds(100000, 600, 60);
    set_bounds(100000, 600, 61);
    TICK({100, 1, .anon = 400, .faulted = 1});
    set_bounds(100000, 600, 105);
    TICK({100, 1, .anon = 400, .faulted = 1}, {106, 100, .anon = 400, .is_copy = true});
    check(400, 400);
    set_bounds(100000, 620, 110);
    TICK({100, 1, .anon = 400, .faulted = 1}, {106, 100, .anon = 420, .is_copy = true});
    check(420, 400 + 20 + 20 /* of one of them, but which is not known */);
}

/* Other runs are read between two ticks. The child is first seen at the second tick: it started
 * after the first, and all huge pages of before that are not its own. */
static void test_huge_pages_with_readings_of_other_runs(void **state _unused_)
{
    set_bounds(100000, 600, 60);
    set_bounds(100000, 600, 105);
    TICK({100, 1, .anon = 400, .faulted = 1});
    for (uint64_t at_ticks = 107; at_ticks < 110; at_ticks++)
        put_bounds(100000, 610, at_ticks, false);
    set_bounds(100000, 620, 110);
    TICK({100, 1, .anon = 400, .faulted = 1}, {106, 100, .anon = 420, .is_copy = true});
    check(420, 400 + 20 + 20);
}

/* Without settings, every fault may be one. */
static void test_every_fault_may_be_a_huge_page(void **state _unused_)
{
    struct ledger *set = ledger;

    assert_int_equal(ledger_new(10, &ledger), 0);
    TICK({100, 1, .anon = 400, .faulted = 1});
    TICK({100, 1, .anon = 400, .faulted = 1},
         {101, 100, .anon = 400, .faulted = 1, .is_copy = true});
    check(400, 800);
    ledger_free(ledger);
    ledger = set;
}

static void test_not_more_than_the_machine_has(void **state _unused_)
{
    set_bounds(1000, 0, 60);
    TICK({100, 1, .anon = 300, .file = 400, .program = 1},
         {101, 1, .anon = 300, .file = 400, .program = 2});
    check(1000, 1000);
}

/* ---- nodes ---- */

static void test_runs_within_runs(void **state _unused_)
{
    TICK({100, 1, .anon = 400, .faulted = 400});
    TICK({100, 1, .anon = 400, .faulted = 400},
         {101, 100, .anon = 400, .faulted = 10, .is_copy = true, .run = &inner},
         {102, 101, .anon = 400, .faulted = 20, .is_copy = true, .run = &inner});
    check(400, 430);
    check_run(&inner, 400, 800); /* the parent is not in it */
    assert_true(ledger_unique_bytes(ledger) == 430 * MB);
}

static void test_memory_of_all_runs(void **state _unused_)
{
    struct run other = {.node.run = &other};

    assert_true(ledger_unique_bytes(ledger) == 0);
    TICK({100, 1, .anon = 50, .file = 10, .program = 1},
         {101, 100, .anon = 30, .program = 2, .run = &inner},
         {102, 1, .anon = 20, .file = 10, .program = 3, .run = &other});
    assert_true(ledger_unique_bytes(ledger) == 120 * MB);
    tick(NULL, 0);
    assert_true(ledger_unique_bytes(ledger) == 0);
}

/* ---- measured ---- */

static void measure(int64_t total_mb, int64_t anon_mb)
{
    ledger_measured(
        ledger, &outer.node,
        &(struct measured_memory){.total_bytes = total_mb * MB, .anon_bytes = anon_mb * MB});
}

static void check_peak(int64_t min_mb, int64_t max_mb)
{
    const struct run_usage *usage = ledger_find(ledger, &outer.node);

    assert_int_equal(usage->peak_unique_min_bytes / MB, min_mb);
    assert_int_equal(usage->peak_unique_bytes / MB, max_mb);
}

static void test_measured_memory(void **state _unused_)
{
    uint64_t growth, later;

    ledger_expect_measures(ledger, &outer.node);
    /* copies whose parent has ended */
    TICK({100, 1, .anon = 100, .file = 4, .is_copy = true},
         {101, 1, .anon = 100, .file = 4, .is_copy = true});
    check(104, 208);
    assert_true(ledger_may_have_peak(ledger, &outer.node, &growth));
    measure(105, 100); /* the same memory; others have mapped the files, too */
    check_peak(105, 108);
    /* Another page fault: now they may have memory of their own. */
    TICK({100, 1, .anon = 100, .file = 4, .faulted = 1, .is_copy = true},
         {101, 1, .anon = 100, .file = 4, .is_copy = true});
    assert_true(ledger_may_have_peak(ledger, &outer.node, &later));
    assert_int_not_equal(growth, later);
    ledger_measured(ledger, &outer.node, NULL);
    check_peak(105, 208);
    TICK({100, 1, .anon = 100, .file = 4, .faulted = 2, .is_copy = true},
         {101, 1, .anon = 100, .file = 4, .is_copy = true});
    measure(155, 150);
    check_peak(155, 158);
    TICK({100, 1, .anon = 100, .file = 4, .faulted = 2, .is_copy = true});
    assert_false(ledger_may_have_peak(ledger, &outer.node, &later));
    check_peak(155, 158);
}

/* A process outside may have mapped the same shared memory: then half of it is missing here. */
static void test_measured_shared_memory(void **state _unused_)
{
    ledger_expect_measures(ledger, &outer.node);
    TICK({100, 1, .anon = 10, .shmem = 100, .program = 1});
    measure(60, 10);
    check_peak(110, 110);
    TICK({100, 1, .anon = 10, .shmem = 100, .program = 1},
         {101, 100, .anon = 10, .shmem = 100, .faulted = 1, .program = 2});
    measure(87, 20);
    check_peak(120, 220);
}

static void test_peaks(void **state _unused_)
{
    TICK({100, 1, .anon = 100, .file = 50, .program = 1},
         {101, 100, .anon = 10, .file = 50, .program = 2});
    TICK({100, 1, .anon = 170, .program = 1});
    const struct run_usage *usage = ledger_find(ledger, &outer.node);
    assert_true(usage->peak_unique_min_bytes == 170 * MB);
    assert_true(usage->peak_unique_bytes == 210 * MB);
    assert_true(usage->peak_total_bytes == 210 * MB);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_files_are_between_the_largest_and_the_sum),
        T(test_distinct_shared_memory),
        T(test_files_and_shared_memory_are_different),
        T(test_copy_counts_with_its_faults),
        T(test_faults_of_the_parent_count),
        T(test_freed_memory_of_the_parent_counts),
        T(test_own_memory_of_copies),
        T(test_fork_before_the_first_reading),
        T(test_copies_of_copies),
        T(test_exec_ends_sharing),
        T(test_parent_that_has_ended),
        T(test_adopted_orphan),
        T(test_shared_memory_map_counts_once),
        T(test_huge_pages),
        T(test_huge_pages_with_readings_of_other_runs),
        T(test_every_fault_may_be_a_huge_page),
        T(test_not_more_than_the_machine_has),
        T(test_runs_within_runs),
        T(test_memory_of_all_runs),
        T(test_measured_memory),
        T(test_measured_shared_memory),
        T(test_peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
