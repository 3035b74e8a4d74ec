/* System calls: their names, sums and shares, and the figures of a run. */
#include "unit.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/text.h"
#include "model/process.h"
#include "model/syscall-profile.h"
#include "sample/call-ledger.h"

#define MS       NS_PER_MSEC
#define INTERVAL (100 * MS)

/* ---- names ---- */

static void test_names(void **state _unused_)
{
    char made[SYSCALL_NAME_SIZE];

    assert_string_equal(syscall_name(SYS_read, made), "read");
    assert_string_equal(syscall_name(SYS_openat, made), "openat");
    assert_string_equal(syscall_name(SYS_exit_group, made), "exit_group");
    assert_string_equal(syscall_name(439, made), "faccessat2");
    assert_string_equal(syscall_name(462, made), "mseal"); /* newer than many systems' headers */
    assert_string_equal(syscall_name(1000, made), "syscall_0x3e8");
    assert_string_equal(syscall_name(SYSCALL_OTHER, made), "syscall_out_of_range");
    assert_string_equal(syscall_name(SYSCALL_COUNT + 5, made), "syscall_0x405_32bit");
#if defined(__x86_64__)
    /* 32-bit programs have different numbers. */
    assert_string_equal(syscall_name(4, made), "stat");
    assert_string_equal(syscall_name(SYSCALL_COMPAT + 4, made), "write");
    assert_string_equal(syscall_name(SYSCALL_COMPAT + 252, made), "exit_group");
#endif
}

/* ---- sums ---- */

static void add(struct syscall_profile *profile, unsigned call, uint64_t count, uint64_t ms,
                uint64_t errors)
{
    const struct syscall_sum sum = {call, count, ms * MS, errors};

    assert_int_equal(syscall_profile_add(profile, &sum), 0);
}

static void assert_tally(const struct tally_list *list, size_t at, const char *name, double value)
{
    assert_true(at < list->count);
    assert_string_equal(list->items[at].name, name);
    assert_float_equal(list->items[at].value, value, 1e-9);
}

static void test_sums(void **state _unused_)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(syscall_profile_done) struct syscall_profile profile = {0}, more = {0};
    struct tally_list list = {0};

    /* No data is null, not an empty list. */
    assert_int_equal(syscall_profile_list(&profile, SYSCALL_COUNTS, &arena, &list), 0);
    assert_int_equal(syscall_profile_shares(&profile, 0.01, &arena, &list), 0);
    assert_null(list.items);

    add(&profile, SYS_write, 2, 30, 0);
    add(&profile, SYS_read, 1, 10, 1);
    add(&profile, SYS_write, 3, 30, 2);
    add(&more, SYS_futex, 1, 130, 0);
    add(&more, SYS_read, 4, 0, 0);
    assert_int_equal(syscall_profile_add_all(&profile, &more), 0);

    assert_int_equal(syscall_profile_list(&profile, SYSCALL_COUNTS, &arena, &list), 0);
    assert_int_equal(list.count, 3);
    assert_tally(&list, 0, "read", 5); /* equal counts are sorted by name */
    assert_tally(&list, 1, "write", 5);
    assert_tally(&list, 2, "futex", 1);
    assert_int_equal(syscall_profile_list(&profile, SYSCALL_ERRORS, &arena, &list), 0);
    assert_int_equal(list.count, 2);
    assert_tally(&list, 0, "write", 2);
    assert_int_equal(syscall_profile_list(&profile, SYSCALL_SECONDS, &arena, &list), 0);
    assert_tally(&list, 0, "futex", 0.13);
    assert_int_equal(syscall_profile_shares(&profile, 0.01, &arena, &list), 0);
    assert_tally(&list, 0, "futex", 65);
    assert_tally(&list, 1, "write", 30);
    assert_tally(&list, 2, "read", 5);
}

static void test_shares_are_rounded(void **state _unused_)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(syscall_profile_done) struct syscall_profile profile = {0};
    struct tally_list list = {0};

    add(&profile, SYS_read, 0, 9958, 0);
    add(&profile, SYS_write, 0, 42, 0);
    assert_int_equal(syscall_profile_shares(&profile, 1, &arena, &list), 0);
    assert_int_equal(list.count, 1); /* zeros are omitted */
    assert_tally(&list, 0, "read", 100);
    assert_int_equal(syscall_profile_shares(&profile, 0.01, &arena, &list), 0);
    assert_tally(&list, 1, "write", 0.42);
    /* Times without counts: calls were not counted. */
    list = (struct tally_list){0};
    assert_int_equal(syscall_profile_list(&profile, SYSCALL_COUNTS, &arena, &list), 0);
    assert_null(list.items);
}

#if defined(__x86_64__)
static void test_compat_numbers_share_a_name(void **state _unused_)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(syscall_profile_done) struct syscall_profile profile = {0};
    struct tally_list list = {0};

    add(&profile, SYSCALL_COMPAT + 4, 2, 10, 0); /* write */
    add(&profile, SYS_write, 3, 10, 0);
    add(&profile, 1000, 1, 0, 0);
    assert_int_equal(syscall_profile_list(&profile, SYSCALL_COUNTS, &arena, &list), 0);
    assert_int_equal(list.count, 2);
    assert_tally(&list, 0, "write", 5);
    assert_tally(&list, 1, "syscall_0x3e8", 1);
}
#endif

static void test_messages(void **state _unused_)
{
    _cleanup_(syscall_profile_done) struct syscall_profile profile = {0};
    _cleanup_text_ struct text words = {0};

    add(&profile, SYS_read, 1000003, 80, 0);
    add(&profile, SYS_write, 1000000, 20, 0);
    add(&profile, SYS_close, 21, 0, 0);
    syscall_profile_format(&profile, 3, &words);
    assert_string_equal(text_string(&words),
                        "read 80% (1000003), write 20% (1000000); 2000024 in all");
}

/* ---- the ledger ---- */

static struct call_ledger ledger;
static struct run outer = {.run_id = "o"}, inner = {.run_id = "i", .parent = &outer};
static struct member first = {.pid = 100, .start_ticks = 1, .run = &outer};
static struct member second = {.pid = 200, .start_ticks = 2, .run = &inner};
static struct arena lists;
static struct moment now;

static int set_up(void **state _unused_)
{
    ledger = (struct call_ledger){0};
    lists = (struct arena){0};
    now = (struct moment){.mono_ns = NS_PER_SEC, .boot_ns = 1000 * NS_PER_SEC};
    first.start_ticks = 1;
    return 0;
}

static int tear_down(void **state _unused_)
{
    call_ledger_done(&ledger);
    arena_done(&lists);
    return 0;
}

static void begin(uint64_t after_ns)
{
    now.mono_ns += after_ns;
    now.boot_ns += after_ns;
    call_ledger_begin(&ledger, &now, INTERVAL);
}

static void look(const struct member *member, unsigned call)
{
    const struct thread_call found = {.pid = member->pid, .call = call};

    assert_int_equal(call_ledger_add_sample(&ledger, member, &found), 0);
}

static void sum(const struct member *member, unsigned call, uint64_t count)
{
    const struct syscall_sum found = {.call = call, .count = count, .ns = count * MS};

    assert_int_equal(call_ledger_add_sum(&ledger, member, &found), 0);
}

static struct run_syscalls read_run(const struct run *run)
{
    struct run_syscalls syscalls;

    assert_int_equal(call_ledger_fill_run(&ledger, run, &lists, &syscalls), 0);
    return syscalls;
}

static struct process_metric row(const struct member *member)
{
    struct process_metric metric;

    record_init(&process_metric_record, &metric);
    metric.pid = member->pid;
    metric.start_ticks = member->start_ticks;
    assert_int_equal(call_ledger_fill_process(&ledger, &lists, &metric), 0);
    return metric;
}

/* A sample stands for the time since the previous one, however often samples are taken. */
static void test_merged_samples_are_weighted(void **state _unused_)
{
    begin(INTERVAL);
    look(&first, SYS_poll);
    call_ledger_end(&ledger, 0);
    for (int i = 0; i < 10; i++) { /* ten additional samples, in a tenth of the time */
        begin(INTERVAL / 10);
        look(&first, SYS_futex);
        call_ledger_end(&ledger, 0);
    }
    struct run_syscalls run = read_run(&outer);
    assert_tally(&run.hotspots, 0, "futex", 50);
    assert_tally(&run.hotspots, 1, "poll", 50);
    assert_null(run.counts.items);
    assert_null(run.seconds.items);
    assert_int_equal(run.source, SYSCALLS_SAMPLED);
    assert_int_equal(run.exactness, SAMPLED);
    struct process_metric process = row(&first);
    assert_tally(&process.syscall_time_pct, 0, "futex", 50);
    assert_int_equal(process.syscall_source, SYSCALLS_SAMPLED);
    assert_null(process.syscall_counts.items);
}

/* A sample after a long pause does not stand for the whole pause, nor for more than the life of its
 * process. */
static void test_samples_have_bounds(void **state _unused_)
{
    begin(INTERVAL);
    look(&first, SYS_poll);
    call_ledger_end(&ledger, 0);
    begin(3600 * NS_PER_SEC);
    look(&first, SYS_futex);
    call_ledger_end(&ledger, 0);
    struct run_syscalls run = read_run(&outer);
    assert_tally(&run.hotspots, 0, "futex", 66.67);

    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    begin(INTERVAL);
    first.start_ticks = now.boot_ns / (NS_PER_SEC / ticks); /* another process, just born */
    look(&first, SYS_read);
    call_ledger_end(&ledger, 0);
    struct process_metric process = row(&first);
    assert_int_equal(process.syscall_time_pct.count, 1);
    run = read_run(&outer);
    assert_tally(&run.hotspots, 2, "read", 3.23); /* a tick of 10 ms, of 310 */
}

static void test_on_a_cpu(void **state _unused_)
{
    struct thread_call busy = {
        .pid = 100, .call = SYS_write, .is_on_cpu = true, .user_ns = 75 * MS, .system_ns = 25 * MS};

    begin(INTERVAL);
    assert_int_equal(call_ledger_add_sample(&ledger, &first, &busy), 0);
    look(&first, SYS_futex);           /* another thread, sleeping */
    busy.user_ns = busy.system_ns = 0; /* its CPU times are unknown */
    assert_int_equal(call_ledger_add_sample(&ledger, &first, &busy), 0);
    look(&first, SYSCALL_NONE);
    call_ledger_end(&ledger, 0);
    struct run_syscalls run = read_run(&outer);
    assert_int_equal(run.hotspots.count, 2);
    assert_tally(&run.hotspots, 0, "futex", 80);
    assert_tally(&run.hotspots, 1, "write", 20);
}

static void test_counted(void **state _unused_)
{
    assert_int_equal(call_ledger_start_counting(&ledger, &outer, true), 0);
    assert_true(call_ledger_is_any_counted(&ledger, &inner));
    assert_false(call_ledger_is_counted(&ledger, &inner));
    for (int i = 1; i <= 3; i++) { /* sums are those of a whole life, not of a tick */
        begin(INTERVAL);
        sum(&first, SYS_read, 10 * (uint64_t)i);
        sum(&first, SYS_write, 1);
        sum(&second, SYS_read, 5);
        call_ledger_end(&ledger, 0);
    }
    struct run_syscalls run = read_run(&outer);
    assert_tally(&run.counts, 0, "read", 35);
    assert_tally(&run.counts, 1, "write", 1);
    assert_tally(&run.seconds, 0, "read", 0.035);
    assert_int_equal(run.errors.count, 0); /* none have failed, which is not unknown */
    assert_non_null(run.errors.items);
    assert_int_equal(run.source, SYSCALLS_BPF);
    assert_int_equal(run.exactness, EXACT);
    assert_null(read_run(&inner).counts.items); /* counting was not requested */
    struct process_metric process = row(&first);
    assert_tally(&process.syscall_counts, 0, "read", 30);

    _cleanup_(syscall_profile_done) struct syscall_profile last = {0};
    add(&last, SYS_read, 31, 31, 4);
    assert_int_equal(call_ledger_ended(&ledger, &first, &last), 0);
    run = read_run(&outer);
    assert_tally(&run.counts, 0, "read", 36);
    assert_int_equal(run.counts.count, 1); /* the exit has all calls of the process */
    assert_tally(&run.errors, 0, "read", 4);
    assert_int_equal(run.exactness, EXACT);
}

static void test_counted_and_sampled(void **state _unused_)
{
    assert_int_equal(call_ledger_start_counting(&ledger, &inner, true), 0);
    assert_true(call_ledger_needs_samples(&ledger, &inner)); /* for the run around it */
    begin(INTERVAL);
    look(&first, SYS_wait4);
    look(&second, SYS_poll);
    sum(&second, SYS_poll, 7);
    call_ledger_end(&ledger, 0);
    struct run_syscalls run = read_run(&outer);
    assert_int_equal(run.source, SYSCALLS_SAMPLED);
    assert_tally(&run.hotspots, 0, "poll", 50);
    assert_tally(&run.hotspots, 1, "wait4", 50);
    run = read_run(&inner);
    assert_int_equal(run.source, SYSCALLS_BPF);
    assert_tally(&run.counts, 0, "poll", 7);
    assert_int_equal(row(&second).syscall_source, SYSCALLS_BPF);
}

/* Missing data is always marked. */
static void test_losses(void **state _unused_)
{
    assert_int_equal(call_ledger_start_counting(&ledger, &outer, true), 0);
    begin(INTERVAL);
    sum(&first, SYS_read, 3);
    call_ledger_end(&ledger, 0);
    assert_int_equal(call_ledger_ended(&ledger, &first, NULL), 0);
    struct run_syscalls run = read_run(&outer);
    assert_tally(&run.counts, 0, "read", 3); /* its last known counts */
    assert_int_equal(run.exactness, LOWER_BOUND);

    call_ledger_end_run(&ledger, &outer);
    assert_int_equal(call_ledger_counted_runs(&ledger), 0);
    assert_int_equal(call_ledger_start_counting(&ledger, &outer, true), 0);
    begin(INTERVAL);
    sum(&second, SYS_read, 1);
    call_ledger_end(&ledger, 1); /* calls that there was no room for */
    assert_int_equal(read_run(&outer).exactness, LOWER_BOUND);

    call_ledger_end_run(&ledger, &outer);
    assert_int_equal(call_ledger_start_counting(&ledger, &outer, false), 0); /* too late */
    begin(INTERVAL);
    sum(&second, SYS_read, 1);
    call_ledger_end(&ledger, 1);
    assert_int_equal(read_run(&outer).exactness, LOWER_BOUND);
}

static void test_ended_run_leaves_no_data(void **state _unused_)
{
    begin(INTERVAL);
    look(&first, SYS_poll);
    look(&second, SYS_poll);
    call_ledger_end(&ledger, 0);
    assert_int_equal(ledger.processes.count, 2);
    begin(INTERVAL);
    look(&first, SYS_poll);
    call_ledger_end(&ledger, 0);
    assert_int_equal(ledger.processes.count, 1);
    call_ledger_end_run(&ledger, &outer);
    call_ledger_end_run(&ledger, &inner);
    assert_int_equal(ledger.processes.count, 0);
    assert_int_equal(ledger.runs.count, 0);
    assert_null(read_run(&outer).hotspots.items);
}

int main(void)
{
#define LEDGER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_shares_are_rounded),
#if defined(__x86_64__)
        cmocka_unit_test(test_compat_numbers_share_a_name),
#endif
        cmocka_unit_test(test_messages),
        LEDGER(test_merged_samples_are_weighted),
        LEDGER(test_samples_have_bounds),
        LEDGER(test_on_a_cpu),
        LEDGER(test_counted),
        LEDGER(test_counted_and_sampled),
        LEDGER(test_losses),
        LEDGER(test_ended_run_leaves_no_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
