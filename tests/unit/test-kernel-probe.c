/* The kernel collector against the real kernel: every field equals /proc, and every process is read
 * once, however many there are. Skipped where the kernel does not permit it. */
#include "kernel-world.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "model/field.h"
#include "zoo.h"

static struct procfs *procfs;

/* ---- equal to /proc ---- */

struct comparison {
    const struct process_reading *before, *proc, *after;
};

static void fail_at(const struct comparison *at, const char *field, int64_t before, int64_t proc,
                    int64_t after)
{
    fail_msg("%s of pid %d (%.200s): kernel %lld, proc %lld, kernel %lld", field,
             (int)at->proc->pid, at->proc->command, (long long)before, (long long)proc,
             (long long)after);
}

/* A figure that may change lies between the readings before and after it. */
static void check_between(const struct comparison *at, size_t offset, const char *field,
                          int64_t slack)
{
    int64_t before, proc, after;

    memcpy(&before, (const char *)at->before + offset, sizeof(before));
    memcpy(&proc, (const char *)at->proc + offset, sizeof(proc));
    memcpy(&after, (const char *)at->after + offset, sizeof(after));
    if (proc < MIN(before, after) - slack || proc > MAX(before, after) + slack)
        fail_at(at, field, before, proc, after);
}

#define CHECK(at, member, slack)                                                                   \
    check_between(at, offsetof(struct process_reading, member), #member, slack)

/* The value equals the reading before or the one after. */
static void check_either(const struct comparison *at, const char *field, int64_t before,
                         int64_t proc, int64_t after)
{
    if (proc != before && proc != after)
        fail_at(at, field, before, proc, after);
}

/* The fields that do not vary while a process works. */
static void compare_identity(const struct comparison *at)
{
    const struct process_reading *before = at->before, *proc = at->proc, *after = at->after;

    check_either(at, "pid", before->pid, proc->pid, after->pid);
    check_either(at, "ppid", before->ppid, proc->ppid, after->ppid);
    check_either(at, "start_ticks", (int64_t)before->start_ticks, (int64_t)proc->start_ticks,
                 (int64_t)after->start_ticks);
    check_either(at, "uid", before->uid, proc->uid, after->uid);
    /* /proc shows a kernel worker with what it works on, and of a process that is just ending the
     * name alone. */
    if (proc->command[0] != '[' && strcmp(before->command, proc->command) != 0)
        fail_at(at, "command", 0, 1, 0);
}

/* All fields of a sleeping process. */
static void compare_all(const struct comparison *at)
{
    const int64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
    const struct process_reading *before = at->before, *proc = at->proc, *after = at->after;

    compare_identity(at);
    assert_string_equal(before->command, proc->command);
    check_either(at, "state", before->state, proc->state, after->state);
    CHECK(at, threads, 0);
    CHECK(at, rss_bytes, 0);
    CHECK(at, shared_bytes, 0);
    CHECK(at, faults, 0);
    CHECK(at, open_fds, 0);
    CHECK(at, fd_limit, 0);
    /* /proc has neither for a process whose first thread has ended. */
    if (proc->vsize_bytes || !proc->rss_bytes) {
        CHECK(at, vsize_bytes, 0);
        CHECK(at, peak_rss_bytes, 0);
        CHECK(at, shmem_bytes, 0);
        check_either(at, "arg_start", (int64_t)before->arg_start, (int64_t)proc->arg_start,
                     (int64_t)after->arg_start);
    }
    check_either(at, "is_forked", before->is_forked, proc->is_forked, after->is_forked);
    CHECK(at, read_bytes, 0);
    CHECK(at, write_bytes, 0);
    CHECK(at, cpu_ns, 0); /* both come from the scheduler */
    /* /proc cuts off to ticks. */
    CHECK(at, user_ns, tick_ns);
    CHECK(at, system_ns, tick_ns);
    CHECK(at, reaped_user_ns, tick_ns);
    CHECK(at, reaped_system_ns, tick_ns);
    if (proc->ignores_sigchld && !before->ignores_sigchld && !after->ignores_sigchld)
        fail_at(at, "ignores_sigchld", 0, 1, 0);
}

static const struct process_reading *find(const struct readings *readings, pid_t pid)
{
    for (size_t i = 0; i < readings->count; i++)
        if (readings->items[i].pid == pid)
            return &readings->items[i];
    return NULL;
}

/* Compares one process: reads the kernel before and after /proc. Copies commands, because a reading
 * is valid until the next. Returns whether the process existed all the time. */
static bool compare_pid(pid_t pid, void (*compare)(const struct comparison *at))
{
    static struct readings before, proc, after;
    char command[1024];

    assert_int_equal(kernel_probe_read_pids(probe, &pid, 1, true, &before), 0);
    if (before.count != 1)
        return false;
    snprintf(command, sizeof(command), "%s", before.items[0].command);
    before.items[0].command = command;
    assert_int_equal(procfs_read_pids(procfs, &pid, 1, &proc), 0);
    assert_int_equal(kernel_probe_read_pids(probe, &pid, 1, true, &after), 0);
    if (proc.count != 1 || after.count != 1 ||
        before.items[0].start_ticks != after.items[0].start_ticks ||
        strcmp(command, after.items[0].command) != 0) /* an exec in between */
        return false;
    compare(&(struct comparison){before.items, proc.items, after.items});
    return true;
}

/* A process of this test, which sleeps once its work is done. */
static void compare_sleeper(pid_t pid)
{
    await_sleep(pid);
    assert_true(compare_pid(pid, compare_all));
}

static void test_equal_to_proc(void **state _unused_)
{
    struct animal zoo[ARRAY_SIZE(habits)];
    struct readings all = {0};
    size_t total, compared = 0;

    for (size_t i = 0; i < ARRAY_SIZE(habits); i++)
        zoo[i] = animal_start(habits[i]);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(kernel_probe_scan(probe, NULL, NULL, &all, &total), 0);
        for (size_t i = 0; i < ARRAY_SIZE(habits); i++) {
            assert_non_null(find(&all, zoo[i].pid));
            compare_sleeper(zoo[i].pid);
        }
        /* Other processes of the machine are at work: their figures move while they are read. */
        for (size_t i = 0; i < all.count; i++)
            compared += compare_pid(all.items[i].pid, compare_identity);
    }
    assert_true(compared > 3 * ARRAY_SIZE(habits));
    for (size_t i = 0; i < ARRAY_SIZE(habits); i++)
        animal_end(&zoo[i]);
    readings_done(&all);
}

static void test_values_of_odd_processes(void **state _unused_)
{
    struct animal threads = animal_start(have_threads), files = animal_start(open_files);
    struct animal limit = animal_start(lower_fd_limit), leaderless = animal_start(end_leader);
    struct animal memory = animal_start(touch_memory), parent = animal_start(leave_zombie);
    struct readings all = {0};
    size_t total, zombies = 0;

    assert_int_equal(kernel_probe_scan(probe, NULL, NULL, &all, &total), 0);
    assert_int_equal(find(&all, threads.pid)->threads, 8);
    assert_true(find(&all, files.pid)->open_fds >= 700);
    assert_int_equal(find(&all, limit.pid)->fd_limit, 64);
    /* not those of its first thread, which has ended */
    assert_true(find(&all, leaderless.pid)->rss_bytes > 0);
    assert_int_equal(find(&all, leaderless.pid)->state, 'S');
    const struct process_reading *grown = find(&all, memory.pid);
    assert_true(grown->peak_rss_bytes >= grown->rss_bytes + 12 * MB);
    assert_true(grown->shared_bytes >= 8 * MB);
    for (size_t i = 0; i < all.count; i++)
        zombies += all.items[i].ppid == parent.pid && all.items[i].state == 'Z' &&
                   !int_is_known(all.items[i].peak_rss_bytes);
    assert_int_equal(zombies, 1);

    const struct animal *animals[] = {&threads, &files, &limit, &leaderless, &memory, &parent};
    for (size_t i = 0; i < ARRAY_SIZE(animals); i++)
        animal_end(animals[i]);
    readings_done(&all);
}

/* ---- sleeping processes ---- */

#define GROWTH_PAGES 256

static char *untouched; /* in every process that is forked after it was mapped */
static int requests[2];

static void open_files_on_request(void)
{
    char byte;

    write(ready_fd, "r", 1);
    while (read(requests[0], &byte, 1) == 1)
        open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static struct process_reading read_one(pid_t pid)
{
    struct readings readings = {0};

    assert_int_equal(kernel_probe_read_pids(probe, &pid, 1, true, &readings), 0);
    assert_int_equal(readings.count, 1);
    struct process_reading reading = readings.items[0];
    readings_done(&readings);
    return reading;
}

/* Others can write into its memory, which makes pages of it resident, give it a tag and set its
 * limits, while it sleeps. */
static void test_changes_of_a_sleeping_process(void **state _unused_)
{
    const size_t bytes = (size_t)GROWTH_PAGES * (size_t)sysconf(_SC_PAGESIZE);
    const struct rlimit limit = {.rlim_cur = 77, .rlim_max = 99};

    untouched = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *content = calloc(1, bytes);
    struct animal sleeper = animal_start(do_nothing);
    await_sleep(sleeper.pid); /* "ready" does not mean that it sleeps yet */
    struct process_reading before = read_one(sleeper.pid);
    const struct iovec from = {content, bytes}, to = {untouched, bytes};
    assert_int_equal(process_vm_writev(sleeper.pid, &from, 1, &to, 1, 0), bytes);
    assert_int_equal(kernel_probe_tag(probe, sleeper.pid, 5), 0);
    struct process_reading after = read_one(sleeper.pid);
    assert_int_equal(after.cpu_ns, before.cpu_ns); /* it really slept */
    assert_true(after.mono_ns > before.mono_ns);
    assert_int_equal(after.rss_bytes, before.rss_bytes + (int64_t)bytes);
    assert_true(after.peak_rss_bytes >= after.rss_bytes);
    assert_int_equal(after.tag, 5);
    compare_sleeper(sleeper.pid);

    assert_int_equal(prlimit(sleeper.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    int readings = 0;
    while (read_one(sleeper.pid).fd_limit != 77)
        assert_true(++readings <= 64);
    animal_end(&sleeper);
    munmap(untouched, bytes);
    free(content);
}

static void test_sleeping_orphan(void **state _unused_)
{
    int pipe_fds[2];
    pid_t orphan;

    assert_int_equal(pipe(pipe_fds), 0);
    struct animal parent = {.pid = fork()};
    if (parent.pid == 0) {
        pid_t pid = fork();
        if (pid == 0)
            wait_for_ever();
        write(pipe_fds[1], &pid, sizeof(pid));
        wait_for_ever();
    }
    assert_int_equal(read(pipe_fds[0], &orphan, sizeof(orphan)), sizeof(orphan));
    assert_int_equal(read_one(orphan).ppid, parent.pid);
    animal_end(&parent);
    struct process_reading after = read_one(orphan);
    assert_int_not_equal(after.ppid, parent.pid);
    compare_sleeper(orphan);
    kill(orphan, SIGKILL);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

/* However short the work was: a change that /proc shows is also in the kernel's next reading. */
static void test_processes_that_ran_between_readings(void **state _unused_)
{
    struct readings proc = {0};

    assert_int_equal(pipe(requests), 0);
    struct animal runner = animal_start(open_files_on_request);
    int64_t files = read_one(runner.pid).open_fds;
    for (int round = 0; round < 50; round++) {
        assert_int_equal(write(requests[1], "", 1), 1);
        do
            assert_int_equal(procfs_read_pids(procfs, &runner.pid, 1, &proc), 0);
        while (proc.items[0].open_fds == files);
        assert_int_equal(read_one(runner.pid).open_fds, ++files);
    }
    compare_sleeper(runner.pid);
    animal_end(&runner);
    readings_done(&proc);
    close(requests[0]);
    close(requests[1]);
}

/* ---- many ---- */

/* More than the probe reads at a time. */
#define CROWD 1300

static void start_crowd(pid_t *pids)
{
    for (int i = 0; i < CROWD; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            wait_for_ever();
        }
    }
}

/* Kills all before it waits: on a busy machine each needs some time to end. */
static void end_crowd(const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < count; i++)
        waitpid(pids[i], NULL, 0);
}

static void assert_once_each(const struct readings *all, const pid_t *pids, size_t count)
{
    static unsigned char seen[1 << 22];

    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < all->count; i++)
        assert_int_equal(seen[all->items[i].pid]++, 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(seen[pids[i]], 1);
}

static enum probe_depth only_odd(void *context, const struct process_reading *begun)
{
    ++*(size_t *)context;
    return begun->pid % 2 ? PROBE_CORE : PROBE_SKIP;
}

static void test_more_than_a_chunk(void **state _unused_)
{
    pid_t pids[CROWD];
    struct readings all = {0};
    size_t total, asked = 0;

    start_crowd(pids);
    assert_int_equal(kernel_probe_scan(probe, NULL, NULL, &all, &total), 0);
    assert_true(total >= all.count);
    assert_once_each(&all, pids, CROWD);
    assert_int_equal(kernel_probe_scan(probe, only_odd, &asked, &all, &total), 0);
    assert_true(asked > all.count);
    for (size_t i = 0; i < all.count; i++)
        assert_int_equal(all.items[i].pid % 2, 1);
    assert_int_equal(kernel_probe_read_pids(probe, pids, CROWD, true, &all), 0);
    assert_int_equal(all.count, CROWD);
    end_crowd(pids, CROWD);
    assert_int_equal(kernel_probe_read_pids(probe, pids, CROWD, true, &all), 0);
    assert_int_equal(all.count, 0);
    readings_done(&all);
}

static void *fork_all_the_time(void *argument)
{
    while (!__atomic_load_n((bool *)argument, __ATOMIC_RELAXED)) {
        pid_t pid = vfork();
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
    return NULL;
}

/* The walk continues after a process that may have ended meanwhile. */
static void test_scan_continues_after_vanished_process(void **state _unused_)
{
    pid_t pids[CROWD];
    struct readings all = {0};
    bool is_over = false;
    pthread_t stir;
    size_t total;

    start_crowd(pids);
    assert_int_equal(pthread_create(&stir, NULL, fork_all_the_time, &is_over), 0);
    for (int round = 0; round < 8; round++) {
        /* the oldest go first: whole chunks move up */
        end_crowd(pids + round * 10, 10);
        assert_int_equal(kernel_probe_scan(probe, NULL, NULL, &all, &total), 0);
        assert_once_each(&all, pids + round * 10 + 10, (size_t)(CROWD - round * 10 - 10));
    }
    __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
    pthread_join(stir, NULL);
    end_crowd(pids + 80, CROWD - 80);
    readings_done(&all);
}

/* ---- parts ---- */

static void check_parts(const struct kernel_probe *of, bool counts_calls)
{
    for (int part = 0; part < KERNEL_PART_COUNT; part++)
        assert_int_equal(kernel_probe_has(of, (enum kernel_part)part),
                         part != KERNEL_PART_CALL_COUNTS || counts_calls);
    assert_string_equal(kernel_probe_missing_parts(of), "");
}

/* The programs that count system calls are loaded only on request; they are not missing. */
static void test_all_parts(void **state _unused_)
{
    const struct kernel_probe_options options = {.proc_root = "/proc", .counts_calls = true};
    struct kernel_probe *counting;
    struct kernel_probe_error refusal;

    check_parts(probe, false);
    assert_int_equal(kernel_probe_open(&options, &counting, &refusal), 0);
    check_parts(counting, true);
    kernel_probe_close(counting);
}

static int set_up(void **state)
{
    int r = kernel_world_set_up(state);

    return r < 0 ? r : procfs_new("/proc", 64, &procfs);
}

static int tear_down(void **state)
{
    procfs_free(procfs);
    return kernel_world_tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_to_proc),
        cmocka_unit_test(test_values_of_odd_processes),
        cmocka_unit_test(test_changes_of_a_sleeping_process),
        cmocka_unit_test(test_sleeping_orphan),
        cmocka_unit_test(test_processes_that_ran_between_readings),
        cmocka_unit_test(test_more_than_a_chunk),
        cmocka_unit_test(test_scan_continues_after_vanished_process),
        cmocka_unit_test(test_all_parts),
    };

    if (!kernel_world_is_allowed())
        return 0;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
