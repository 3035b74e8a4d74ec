/* The kernel collector against the real kernel: equal to /proc field by field, and every birth, end
 * and signal told. Needs CAP_BPF and CAP_PERFMON; says so and is skipped without them. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/vec.h"
#include "model/field.h"
#include "probe/bpf/kernel-probe.h"

#define MB (1024 * 1024)

static struct kernel_probe *probe;
static struct procfs *procfs;

/* ---- processes to look at ---- */

/* What a process of the zoo does before it says that it is ready. */
typedef void (*habit_fn)(void);

struct animal {
    pid_t pid;
};

static void wait_for_ever(void)
{
    for (;;)
        pause();
}

static void *sleep_in_thread(void *argument _unused_)
{
    wait_for_ever();
    return NULL;
}

static void do_nothing(void)
{
}

static void have_threads(void)
{
    pthread_t thread;

    for (int i = 0; i < 7; i++)
        pthread_create(&thread, NULL, sleep_in_thread, NULL);
}

static void open_files(void)
{
    for (int i = 0; i < 700; i++)
        open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void lower_fd_limit(void)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 64, .rlim_max = 128});
}

static void touch_memory(void)
{
    char *memory = mmap(NULL, 48 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, 48 * MB);
    munmap(memory, 24 * MB); /* the high-water mark stays */
    char *shared = mmap(NULL, 8 * MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 1, 8 * MB);
}

static void write_file(void)
{
    char path[] = "/tmp/sonde-kernel-XXXXXX", block[4096] = {1};
    int fd = mkstemp(path);

    unlink(path);
    for (int i = 0; i < 300; i++)
        write(fd, block, sizeof(block));
    fsync(fd);
}

static void spin(void)
{
    struct timespec now;

    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while (now.tv_nsec < 60000000);
}

static void reap_children(void)
{
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            spin();
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
}

static void leave_zombie(void)
{
    siginfo_t info;
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_NAME, "deceased");
        _exit(3);
    }
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT); /* until it is one */
}

static void become_other_user(void)
{
    if (getuid() == 0)
        setresuid(4242, 4242, 4242);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* who changes its user forgets that */
}

static void rename_itself(void)
{
    prctl(PR_SET_NAME, ") Z 1 \n(");
}

static void ignore_children(void)
{
    signal(SIGCHLD, SIG_IGN);
}

static int ready_fd;

static void *go_on_without_leader(void *argument _unused_)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    write(ready_fd, "r", 1);
    wait_for_ever();
    return NULL;
}

/* The first thread ends, and the process lives on. */
static void end_leader(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, go_on_without_leader, NULL);
    pthread_exit(NULL);
}

static const habit_fn habits[] = {
    do_nothing,      have_threads, open_files,        lower_fd_limit, touch_memory,
    write_file,      spin,         reap_children,     leave_zombie,   rename_itself,
    ignore_children, end_leader,   become_other_user,
};

static struct animal animal_start(habit_fn habit)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    struct animal animal = {.pid = fork()};
    if (animal.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        ready_fd = ready[1];
        habit();
        write(ready[1], "r", 1);
        wait_for_ever();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return animal;
}

static void animal_end(const struct animal *animal)
{
    kill(animal->pid, SIGKILL);
    waitpid(animal->pid, NULL, 0);
}

/* ---- equal to /proc ---- */

struct comparison {
    const struct process_reading *before, *proc, *after;
};

/* What does not fit is told here, and may be a value that has moved to and fro in between. */
static char difference[512];

static void note_difference(const struct comparison *at, const char *field, int64_t before,
                            int64_t proc, int64_t after)
{
    snprintf(difference, sizeof(difference),
             "%s of pid %d (%.200s): kernel %lld, proc %lld, "
             "kernel %lld",
             field, (int)at->proc->pid, at->proc->command, (long long)before, (long long)proc,
             (long long)after);
}

/* What may move between the readings lies between the two that stand around it. */
static void check_between(const struct comparison *at, size_t offset, const char *field,
                          int64_t slack)
{
    int64_t before, proc, after;

    memcpy(&before, (const char *)at->before + offset, sizeof(before));
    memcpy(&proc, (const char *)at->proc + offset, sizeof(proc));
    memcpy(&after, (const char *)at->after + offset, sizeof(after));
    if (proc < MIN(before, after) - slack || proc > MAX(before, after) + slack)
        note_difference(at, field, before, proc, after);
}

#define CHECK(at, member, slack)                                                                   \
    check_between(at, offsetof(struct process_reading, member), #member, slack)

/* One of the two around it. */
static void check_either(const struct comparison *at, const char *field, int64_t before,
                         int64_t proc, int64_t after)
{
    if (proc != before && proc != after)
        note_difference(at, field, before, proc, after);
}

static void compare(const struct comparison *at)
{
    const int64_t tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
    const struct process_reading *before = at->before, *proc = at->proc, *after = at->after;

    difference[0] = '\0';
    check_either(at, "pid", before->pid, proc->pid, after->pid);
    check_either(at, "ppid", before->ppid, proc->ppid, after->ppid);
    check_either(at, "start_ticks", (int64_t)before->start_ticks, (int64_t)proc->start_ticks,
                 (int64_t)after->start_ticks);
    check_either(at, "state", before->state, proc->state, after->state);
    check_either(at, "uid", before->uid, proc->uid, after->uid);
    CHECK(at, threads, 0);
    CHECK(at, rss_bytes, 0);
    CHECK(at, shared_bytes, 0);
    CHECK(at, open_fds, 0);
    CHECK(at, fd_limit, 0);
    /* /proc has neither of a process whose first thread has ended. */
    if (proc->vsize_bytes || !proc->rss_bytes) {
        CHECK(at, vsize_bytes, 0);
        CHECK(at, peak_rss_bytes, 0);
    }
    CHECK(at, read_bytes, 0);
    CHECK(at, write_bytes, 0);
    /* Both are the scheduler's; a running one is brought up to date when it is asked for. */
    CHECK(at, cpu_ns, tick_ns);
    /* /proc cuts off to ticks. */
    CHECK(at, user_ns, tick_ns);
    CHECK(at, system_ns, tick_ns);
    CHECK(at, reaped_user_ns, tick_ns);
    CHECK(at, reaped_system_ns, tick_ns);
    /* The kernel shows a worker with what it works on, if /proc is asked. */
    if (strncmp(proc->command, "[kworker", 8) != 0 && strncmp(proc->command, "[kthread", 8) != 0 &&
        strcmp(before->command, proc->command) != 0)
        note_difference(at, "command", 0, 1, 0);
    if (proc->ignores_sigchld && !before->ignores_sigchld && !after->ignores_sigchld)
        note_difference(at, "ignores_sigchld", 0, 1, 0);
}

static const struct process_reading *find(const struct readings *readings, pid_t pid)
{
    for (size_t i = 0; i < readings->count; i++)
        if (readings->items[i].pid == pid)
            return &readings->items[i];
    return NULL;
}

/* One process, the kernel asked before and after /proc. Commands are copied, because a reading is
 * valid until the next. Returns whether it was there all the while. */
static bool compare_once(pid_t pid)
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

/* A machine at work moves while it is looked at: what is equal is so at one time of several. */
static bool compare_pid(pid_t pid)
{
    for (int attempt = 0; attempt < 8; attempt++) {
        if (!compare_once(pid))
            return false;
        if (!difference[0])
            return true;
    }
    fail_msg("%s", difference);
    return false;
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
        for (size_t i = 0; i < ARRAY_SIZE(habits); i++)
            assert_non_null(find(&all, zoo[i].pid));
        for (size_t i = 0; i < all.count; i++)
            /* ours moves with the looking itself */
            compared += all.items[i].pid != getpid() && compare_pid(all.items[i].pid);
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

/* ---- who sleeps ---- */

#define GROWTH_PAGES 256

static char *untouched; /* in every process that is forked after it was mapped */
static int errand[2];

static void run_errands(void)
{
    char byte;

    write(ready_fd, "r", 1);
    while (read(errand[0], &byte, 1) == 1)
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
static void test_what_others_do_to_a_sleeper(void **state _unused_)
{
    const size_t bytes = (size_t)GROWTH_PAGES * (size_t)sysconf(_SC_PAGESIZE);
    const struct rlimit limit = {.rlim_cur = 77, .rlim_max = 99};

    untouched = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *content = calloc(1, bytes);
    struct animal sleeper = animal_start(do_nothing);
    while (read_one(sleeper.pid).state != 'S') /* it has said that it is ready, no more */
        ;
    struct process_reading before = read_one(sleeper.pid);
    const struct iovec from = {content, bytes}, to = {untouched, bytes};
    assert_int_equal(process_vm_writev(sleeper.pid, &from, 1, &to, 1, 0), bytes);
    assert_int_equal(kernel_probe_tag(probe, sleeper.pid, 5), 0);
    struct process_reading after = read_one(sleeper.pid);
    assert_int_equal(after.cpu_ns, before.cpu_ns); /* it sleeps indeed */
    assert_true(after.mono_ns > before.mono_ns);
    assert_int_equal(after.rss_bytes, before.rss_bytes + (int64_t)bytes);
    assert_true(after.peak_rss_bytes >= after.rss_bytes);
    assert_int_equal(after.tag, 5);
    assert_true(compare_pid(sleeper.pid));

    assert_int_equal(prlimit(sleeper.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    int readings = 0;
    while (read_one(sleeper.pid).fd_limit != 77)
        assert_true(++readings <= 64);
    animal_end(&sleeper);
    munmap(untouched, bytes);
    free(content);
}

static void test_an_orphan_that_sleeps(void **state _unused_)
{
    int told[2];
    pid_t orphan;

    assert_int_equal(pipe(told), 0);
    struct animal parent = {.pid = fork()};
    if (parent.pid == 0) {
        pid_t pid = fork();
        if (pid == 0)
            wait_for_ever();
        write(told[1], &pid, sizeof(pid));
        wait_for_ever();
    }
    assert_int_equal(read(told[0], &orphan, sizeof(orphan)), sizeof(orphan));
    assert_int_equal(read_one(orphan).ppid, parent.pid);
    animal_end(&parent);
    struct process_reading after = read_one(orphan);
    assert_int_not_equal(after.ppid, parent.pid);
    bool is_there = compare_pid(orphan);
    kill(orphan, SIGKILL);
    assert_true(is_there);
    close(told[0]);
    close(told[1]);
}

/* However short it was: what /proc has seen, the kernel's reading after it sees, too. */
static void test_who_has_run_in_between(void **state _unused_)
{
    struct readings proc = {0};

    assert_int_equal(pipe(errand), 0);
    struct animal runner = animal_start(run_errands);
    int64_t files = read_one(runner.pid).open_fds;
    for (int round = 0; round < 50; round++) {
        assert_int_equal(write(errand[1], "", 1), 1);
        do
            assert_int_equal(procfs_read_pids(procfs, &runner.pid, 1, &proc), 0);
        while (proc.items[0].open_fds == files);
        assert_int_equal(read_one(runner.pid).open_fds, ++files);
    }
    assert_true(compare_pid(runner.pid));
    animal_end(&runner);
    readings_done(&proc);
    close(errand[0]);
    close(errand[1]);
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

static void end_crowd(const pid_t *pids)
{
    for (int i = 0; i < CROWD; i++)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < CROWD; i++)
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
    end_crowd(pids);
    assert_int_equal(kernel_probe_read_pids(probe, pids, CROWD, true, &all), 0);
    assert_int_equal(all.count, 0);
    readings_done(&all);
}

static void *make_a_stir(void *argument)
{
    while (!__atomic_load_n((bool *)argument, __ATOMIC_RELAXED)) {
        pid_t pid = vfork();
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
    return NULL;
}

/* The walk goes on behind a process that may be gone by then. */
static void test_a_place_that_vanishes(void **state _unused_)
{
    pid_t pids[CROWD];
    struct readings all = {0};
    bool is_over = false;
    pthread_t stir;
    size_t total;

    start_crowd(pids);
    assert_int_equal(pthread_create(&stir, NULL, make_a_stir, &is_over), 0);
    for (int round = 0; round < 8; round++) {
        /* the oldest go first: whole chunks move up */
        for (int i = round * 10; i < round * 10 + 10; i++) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
        assert_int_equal(kernel_probe_scan(probe, NULL, NULL, &all, &total), 0);
        assert_once_each(&all, pids + round * 10 + 10, (size_t)(CROWD - round * 10 - 10));
    }
    __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
    pthread_join(stir, NULL);
    for (int i = 80; i < CROWD; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    readings_done(&all);
}

/* ---- events ---- */

struct log {
    struct VEC(struct lifecycle_event) events; /* commands are copies */
};

static struct log told;

static void note(void *context _unused_, const struct lifecycle_event *event)
{
    assert_int_equal(VEC_PUSH(&told.events, *event), 0);
    struct lifecycle_event *copy = &told.events.items[told.events.count - 1];
    copy->command = event->command ? strdup(event->command) : NULL;
    copy->sender_name = event->sender_name ? strdup(event->sender_name) : NULL;
    copy->details = event->details ? strdup(event->details) : NULL;
}

static void forget_all(void)
{
    for (size_t i = 0; i < told.events.count; i++) {
        free((char *)(uintptr_t)told.events.items[i].command);
        free((char *)(uintptr_t)told.events.items[i].sender_name);
        free((char *)(uintptr_t)told.events.items[i].details);
    }
    VEC_DONE(&told.events);
}

static size_t count(enum lifecycle_kind kind, uint32_t tag)
{
    size_t number = 0;

    for (size_t i = 0; i < told.events.count; i++)
        number += told.events.items[i].kind == kind && (!tag || told.events.items[i].tag == tag);
    return number;
}

static const struct lifecycle_event *find_event(enum lifecycle_kind kind, pid_t pid)
{
    for (size_t i = 0; i < told.events.count; i++)
        if (told.events.items[i].kind == kind && told.events.items[i].pid == pid)
            return &told.events.items[i];
    return NULL;
}

/* Drains until the end of the process has come. */
static void await_end(pid_t pid)
{
    for (int i = 0; i < 2000 && !find_event(LIFECYCLE_EXIT, pid); i++) {
        assert_int_equal(kernel_probe_drain(probe, note, NULL), 0);
        kernel_probe_settle(probe, pid, note, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_non_null(find_event(LIFECYCLE_EXIT, pid));
}

/* Forks a child that is born with the tag, as `sonde run` does. */
static pid_t fork_tagged(uint32_t tag)
{
    assert_int_equal(kernel_probe_tag(probe, getpid(), tag), 0);
    pid_t pid = fork();
    if (pid)
        assert_int_equal(kernel_probe_tag(probe, getpid(), 0), 0);
    return pid;
}

static int64_t usage_ns(const struct rusage *usage)
{
    return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000000 +
           (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
}

#define STORM 500

/* Every one of them, with what wait4 says of it. */
static void test_storm(void **state _unused_)
{
    struct {
        pid_t pid;
        int status;
        int64_t cpu_ns;
        long peak_kb;
    } *expected = mmap(NULL, sizeof(*expected) * STORM, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int equal = 0;

    forget_all();
    pid_t parent = fork_tagged(7);
    if (parent == 0) {
        for (int i = 0; i < STORM; i++) {
            struct rusage usage;
            pid_t pid = fork();
            if (pid == 0) {
                execl("/bin/sh", "sh", "-c", i % 2 ? "exit 3" : ":", (char *)NULL);
                _exit(127);
            }
            expected[i].pid = wait4(pid, &expected[i].status, 0, &usage);
            expected[i].cpu_ns = usage_ns(&usage);
            expected[i].peak_kb = usage.ru_maxrss;
        }
        _exit(0);
    }
    waitpid(parent, NULL, 0);
    await_end(parent);
    assert_int_equal(count(LIFECYCLE_FORK, 7), STORM + 1);
    assert_int_equal(count(LIFECYCLE_EXEC, 7), STORM);
    assert_int_equal(count(LIFECYCLE_EXIT, 7), STORM + 1);
    assert_int_equal(count(LIFECYCLE_FORK, 0), STORM + 1); /* of nobody else */
    assert_int_equal(kernel_probe_lost(probe), 0);
    for (int i = 0; i < STORM; i++) {
        const struct lifecycle_event *end = find_event(LIFECYCLE_EXIT, expected[i].pid);
        assert_int_equal(end->wait_status, expected[i].status);
        assert_true(int_is_known(end->cpu_ns));
        /* wait4 cuts off to microseconds, user and system each, and misses the last slice of one
         * that was reaped before it had left the CPU */
        int64_t off_ns = end->cpu_ns - expected[i].cpu_ns;
        assert_true(off_ns >= -1000);
        equal += off_ns < 5000;
        /* wait4 remembers what it had before its exec */
        assert_true(end->peak_rss_bytes > 0 && end->peak_rss_bytes <= expected[i].peak_kb * 1024);
        const struct lifecycle_event *exec = find_event(LIFECYCLE_EXEC, expected[i].pid);
        assert_string_equal(exec->command, i % 2 ? "sh -c exit 3" : "sh -c :");
        assert_int_equal(find_event(LIFECYCLE_FORK, expected[i].pid)->ppid, parent);
    }
    assert_true(equal > STORM / 2);
    munmap(expected, sizeof(*expected) * STORM);
}

#define FAMILIES 200

static pid_t wait_for_one(void (*live)(pid_t *pids), pid_t *pids)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (live)
            live(pids);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
    return pid;
}

static void have_a_child(pid_t *pids)
{
    pids[0] = wait_for_one(NULL, NULL);
}

/* However long it takes a task to leave the CPU after its parent was told. */
static void test_nobody_ends_before_its_children(void **state _unused_)
{
    pid_t *pids = mmap(NULL, sizeof(*pids) * 2 * FAMILIES, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    forget_all();
    pid_t parent = fork_tagged(8);
    if (parent == 0) {
        for (int i = 0; i < FAMILIES; i++)
            pids[2 * i + 1] = wait_for_one(have_a_child, &pids[2 * i]);
        _exit(0);
    }
    waitpid(parent, NULL, 0);
    await_end(parent);
    assert_int_equal(count(LIFECYCLE_EXIT, 8), 2 * FAMILIES + 1);
    for (int i = 0; i < FAMILIES; i++)
        assert_true(find_event(LIFECYCLE_EXIT, pids[2 * i]) <
                    find_event(LIFECYCLE_EXIT, pids[2 * i + 1]));
    munmap(pids, sizeof(*pids) * 2 * FAMILIES);
}

static void test_signals_and_their_senders(void **state _unused_)
{
    int status, ready[2];
    char byte;

    forget_all();
    assert_int_equal(pipe(ready), 0);
    pid_t target = fork_tagged(9);
    if (target == 0) {
        signal(SIGUSR1, SIG_IGN);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        write(ready[1], "r", 1);
        wait_for_ever();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    pid_t sender = fork();
    if (sender == 0) {
        prctl(PR_SET_NAME, "assassin");
        kill(target, SIGUSR1); /* ignored: nothing happens */
        kill(target, SIGCHLD); /* everyday */
        kill(target, SIGKILL);
        _exit(0);
    }
    waitpid(target, &status, 0);
    waitpid(sender, NULL, 0);
    await_end(target);
    assert_int_equal(count(LIFECYCLE_SIGNAL, 0), 1);
    const struct lifecycle_event *sent = find_event(LIFECYCLE_SIGNAL, target);
    assert_int_equal(sent->signal_num, SIGKILL);
    assert_int_equal(sent->sender_pid, sender);
    assert_string_equal(sent->sender_name, "assassin");
    assert_int_equal(find_event(LIFECYCLE_EXIT, target)->wait_status, status);
}

static void test_fault_is_the_kernels(void **state _unused_)
{
    forget_all();
    pid_t target = fork_tagged(10);
    if (target == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGSEGV, SIG_DFL);
        char *nowhere = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        *(volatile char *)nowhere = 1;
    }
    waitpid(target, NULL, 0);
    await_end(target);
    const struct lifecycle_event *sent = find_event(LIFECYCLE_SIGNAL, target);
    assert_non_null(sent);
    assert_int_equal(sent->signal_num, SIGSEGV);
    assert_int_equal(sent->sender_pid, 0);
    assert_true(WIFSIGNALED(find_event(LIFECYCLE_EXIT, target)->wait_status));
}

static void *exit_in_thread(void *argument _unused_)
{
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    spin();
    _exit(5);
}

static void *exec_in_thread(void *argument _unused_)
{
    execl("/bin/sh", "sh", "-c", "/bin/true & wait; exit 4", (char *)NULL);
    return NULL;
}

/* The process ends once, with its last thread; its status is the group's. A thread that executes a
 * program takes the pid, and the membership, with it. */
static void test_threads(void **state _unused_)
{
    pthread_t thread;

    forget_all();
    pid_t first = fork_tagged(11);
    if (first == 0) {
        pthread_create(&thread, NULL, exit_in_thread, NULL);
        pthread_exit(NULL);
    }
    waitpid(first, NULL, 0);
    await_end(first);
    assert_int_equal(count(LIFECYCLE_EXIT, 11), 1);
    assert_int_equal(WEXITSTATUS(find_event(LIFECYCLE_EXIT, first)->wait_status), 5);
    assert_true(find_event(LIFECYCLE_EXIT, first)->cpu_ns >= 60000000);

    pid_t second = fork_tagged(12);
    if (second == 0) {
        pthread_create(&thread, NULL, exec_in_thread, NULL);
        wait_for_ever();
    }
    waitpid(second, NULL, 0);
    await_end(second);
    assert_int_equal(WEXITSTATUS(find_event(LIFECYCLE_EXIT, second)->wait_status), 4);
    assert_int_equal(count(LIFECYCLE_EXIT, 12), 2); /* and that of what it forked then */
}

/* One that is there already: its threads, and what they fork, belong to it from then on. */
static void test_tagged_later(void **state _unused_)
{
    forget_all();
    struct animal animal = animal_start(do_nothing);
    assert_int_equal(kernel_probe_drain(probe, note, NULL), 0);
    assert_int_equal(told.events.count, 0);
    assert_int_equal(kernel_probe_tag(probe, animal.pid, 13), 0);
    struct readings one = {0};
    assert_int_equal(kernel_probe_read_pids(probe, &animal.pid, 1, true, &one), 0);
    assert_int_equal(one.items[0].tag, 13);
    animal_end(&animal);
    await_end(animal.pid);
    assert_int_equal(find_event(LIFECYCLE_EXIT, animal.pid)->tag, 13);
    assert_int_equal(kernel_probe_tag(probe, animal.pid, 13), -ESRCH);
    readings_done(&one);
}

static bool is_woken(const struct kernel_probe *of)
{
    struct pollfd fd = {.fd = kernel_probe_fd(of), .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

static void fork_and_reap(void)
{
    pid_t pid = vfork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
}

static void note_nothing(void *context _unused_, const struct lifecycle_event *event _unused_)
{
}

static void drain_and_sleep(struct kernel_probe *of)
{
    do
        assert_int_equal(kernel_probe_drain(of, note_nothing, NULL), 0);
    while (!kernel_probe_sleep(of));
}

/* Of strangers there are many on a machine; nobody waits for what happens to them. But none is lost
 * for that. */
static void test_strangers_wake_nobody(void **state _unused_)
{
    struct kernel_probe *all;
    struct kernel_refusal refusal;
    int strangers = 0;

    assert_int_equal(
        kernel_probe_open(&(struct kernel_probe_options){.wants_all = true}, &all, &refusal), 0);
    drain_and_sleep(all);
    fork_and_reap();
    assert_false(is_woken(all));

    pid_t target = fork();
    if (target == 0)
        wait_for_ever();
    assert_false(is_woken(all));
    assert_int_equal(kernel_probe_tag(all, target, 11), 0);
    kill(target, SIGKILL);
    waitpid(target, NULL, 0);
    assert_int_equal(poll(&(struct pollfd){.fd = kernel_probe_fd(all), .events = POLLIN}, 1, -1),
                     1);

    drain_and_sleep(all);
    while (!is_woken(all) && strangers < 100000) {
        fork_and_reap();
        strangers++;
    }
    assert_true(strangers > 100 && strangers < 100000);
    assert_int_equal(kernel_probe_drain(all, note_nothing, NULL), 0); /* none was lost */
    kernel_probe_close(all);
}

static void test_hostile_command_lines(void **state _unused_)
{
    static char longest[100000];

    memset(longest, 'x', sizeof(longest) - 1);
    forget_all();
    pid_t target = fork_tagged(14);
    if (target == 0) {
        execl("/bin/sh", "sh", "-c", ":", longest, (char *)NULL);
        _exit(127);
    }
    waitpid(target, NULL, 0);
    await_end(target);
    const char *command = find_event(LIFECYCLE_EXEC, target)->command;
    assert_memory_equal(command, "sh -c : xxx", 11);
    assert_true(strlen(command) <= 500);

    target = fork_tagged(15);
    if (target == 0) {
        execl("/bin/sh", "\xff\x1b[31m", "-c", ":", (char *)NULL);
        _exit(127);
    }
    waitpid(target, NULL, 0);
    await_end(target);
    assert_string_equal(find_event(LIFECYCLE_EXEC, target)->command, "\xef\xbf\xbd\x1b[31m -c :");
}

/* ---- parts ---- */

static void test_all_parts(void **state _unused_)
{
    for (int part = 0; part < KERNEL_PART_COUNT; part++)
        assert_true(kernel_probe_has(probe, (enum kernel_part)part));
    assert_string_equal(kernel_probe_refusal(probe), "");
}

static int setup(void **state _unused_)
{
    if (kernel_probe_open(&(struct kernel_probe_options){0}, &probe, &(struct kernel_refusal){0}) <
        0)
        return -1;
    return procfs_new("/proc", 64, &procfs);
}

static int teardown(void **state _unused_)
{
    kernel_probe_close(probe);
    procfs_free(procfs);
    forget_all();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_to_proc),
        cmocka_unit_test(test_values_of_odd_processes),
        cmocka_unit_test(test_what_others_do_to_a_sleeper),
        cmocka_unit_test(test_an_orphan_that_sleeps),
        cmocka_unit_test(test_who_has_run_in_between),
        cmocka_unit_test(test_more_than_a_chunk),
        cmocka_unit_test(test_a_place_that_vanishes),
        cmocka_unit_test(test_storm),
        cmocka_unit_test(test_nobody_ends_before_its_children),
        cmocka_unit_test(test_signals_and_their_senders),
        cmocka_unit_test(test_fault_is_the_kernels),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_tagged_later),
        cmocka_unit_test(test_strangers_wake_nobody),
        cmocka_unit_test(test_hostile_command_lines),
        cmocka_unit_test(test_all_parts),
    };
    struct kernel_refusal refusal;

    if (!kernel_probe_is_allowed(&refusal)) {
        printf("1..0 # SKIP the kernel collector cannot be had: %s\n", refusal.words);
        return 0;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
