/* The kernel collector against the real kernel: every fork, exec, exit and signal of a tagged
 * process is reported, once and in order. Skipped where the kernel does not permit it. */
#include "kernel-world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/vec.h"
#include "config/paths.h"
#include "model/field.h"
#include "probe/bpf/kernel-records.h"
#include "zoo.h"

struct log {
    struct VEC(struct lifecycle_event) events; /* commands are copies */
};

static struct log seen;

static void note(void *context _unused_, const struct lifecycle_event *event)
{
    assert_int_equal(VEC_PUSH(&seen.events, *event), 0);
    struct lifecycle_event *copy = &seen.events.items[seen.events.count - 1];
    copy->command = event->command ? strdup(event->command) : NULL;
    copy->sender_name = event->sender_name ? strdup(event->sender_name) : NULL;
    copy->details = event->details ? strdup(event->details) : NULL;
}

static void forget_all(void)
{
    for (size_t i = 0; i < seen.events.count; i++) {
        free((char *)(uintptr_t)seen.events.items[i].command);
        free((char *)(uintptr_t)seen.events.items[i].sender_name);
        free((char *)(uintptr_t)seen.events.items[i].details);
    }
    VEC_DONE(&seen.events);
}

static size_t count(enum lifecycle_kind kind, uint32_t tag)
{
    size_t number = 0;

    for (size_t i = 0; i < seen.events.count; i++)
        number += seen.events.items[i].kind == kind && (!tag || seen.events.items[i].tag == tag);
    return number;
}

static const struct lifecycle_event *find_event(enum lifecycle_kind kind, pid_t pid)
{
    for (size_t i = 0; i < seen.events.count; i++)
        if (seen.events.items[i].kind == kind && seen.events.items[i].pid == pid)
            return &seen.events.items[i];
    return NULL;
}

/* Drains until the exit of the process was reported; meson's timeout ends the test if it never is.
 * */
static void await_end(pid_t pid)
{
    while (!find_event(LIFECYCLE_EXIT, pid)) {
        assert_int_equal(kernel_probe_drain(probe, note, NULL), 0);
        kernel_probe_settle(probe, pid, 20 * NS_PER_MSEC, note, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* The kernel reports a signal after it has sent it: if it does so on another processor, the target
 * may have ended before. */
static const struct lifecycle_event *await_signal(pid_t target)
{
    const struct lifecycle_event *sent;

    while (!(sent = find_event(LIFECYCLE_SIGNAL, target))) {
        assert_int_equal(kernel_probe_drain(probe, note, NULL), 0);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return sent;
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

/* The kernel rounds the peak in ru_maxrss by at most this (percpu_counter_batch, in pages). */
#define ROUNDED_BYTES (1 << 20)

/* Every exit is reported, with the figures of wait4. */
static void test_storm(void **state _unused_)
{
    struct {
        pid_t pid;
        int status;
        int64_t cpu_ns;
        int64_t user_ns;
        long peak_kb;
    } *expected = mmap(NULL, sizeof(*expected) * STORM, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int equal = 0, split_equal = 0;

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
            expected[i].user_ns =
                usage.ru_utime.tv_sec * 1000000000 + usage.ru_utime.tv_usec * 1000;
            expected[i].peak_kb = usage.ru_maxrss;
        }
        _exit(0);
    }
    waitpid(parent, NULL, 0);
    await_end(parent);
    assert_int_equal(count(LIFECYCLE_FORK, 7), STORM + 1);
    assert_int_equal(count(LIFECYCLE_EXEC, 7), STORM);
    assert_int_equal(count(LIFECYCLE_EXIT, 7), STORM + 1);
    assert_int_equal(count(LIFECYCLE_FORK, 0), STORM + 1); /* and of no other process */
    assert_int_equal(kernel_probe_lost(probe), 0);
    for (int i = 0; i < STORM; i++) {
        const struct lifecycle_event *end = find_event(LIFECYCLE_EXIT, expected[i].pid);
        assert_int_equal(end->wait_status, expected[i].status);
        assert_true(int_is_known(end->cpu_ns));
        /* wait4 cuts off to microseconds, user and system each, and misses the last slice of one
         * that was reaped before it had left the CPU */
        int64_t off_ns = end->cpu_ns - expected[i].cpu_ns;
        assert_true(off_ns >= -1000);
        if (off_ns < 5000) {
            equal++;
            split_equal += llabs(end->user_ns - expected[i].user_ns) < 6000;
        }
        /* wait4 rounds the part of the last program */
        assert_true(end->peak_rss_bytes >= expected[i].peak_kb * 1024);
        assert_true(end->peak_rss_bytes <= expected[i].peak_kb * 1024 + ROUNDED_BYTES);
        const struct lifecycle_event *exec = find_event(LIFECYCLE_EXEC, expected[i].pid);
        assert_string_equal(exec->command, i % 2 ? "sh -c exit 3" : "sh -c :");
        assert_int_equal(find_event(LIFECYCLE_FORK, expected[i].pid)->ppid, parent);
    }
    assert_true(equal > STORM / 2);
    /* A clock tick may come between the kernel's two readings; most are much earlier. */
    assert_in_range(split_equal, equal - STORM / 50, equal);
    munmap(expected, sizeof(*expected) * STORM);
}

#define LARGE_BYTES (64 << 20)

static void touch_large(void)
{
    memset(mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1,
           LARGE_BYTES);
}

static pid_t vfork_and_reap(const char *script)
{
    pid_t pid = vfork();

    if (pid == 0) {
        if (script)
            execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    return pid;
}

/* The peak of a process includes the programs that it ran before, but not the memory of its parent,
 * which a child of vfork() shares until its exec. */
static void test_peak_before_exec(void **state _unused_)
{
    enum { LARGE, SHARED, SHARED_TWICE, WITHOUT_EXEC, KINDS };
    pid_t *pids = mmap(NULL, sizeof(*pids) * KINDS, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    forget_all();
    pid_t parent = fork_tagged(33);
    if (parent == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            touch_large();
            execl("/bin/true", "true", (char *)NULL);
        }
        pids[LARGE] = waitpid(pid, NULL, 0);
        touch_large();
        pids[SHARED] = vfork_and_reap(":");
        pids[SHARED_TWICE] = vfork_and_reap("exec true");
        pids[WITHOUT_EXEC] = vfork_and_reap(NULL);
        _exit(0);
    }
    waitpid(parent, NULL, 0);
    await_end(parent);
    assert_true(find_event(LIFECYCLE_EXIT, parent)->peak_rss_bytes >= LARGE_BYTES);
    assert_true(find_event(LIFECYCLE_EXEC, pids[LARGE])->peak_rss_bytes >= LARGE_BYTES);
    assert_true(find_event(LIFECYCLE_EXIT, pids[LARGE])->peak_rss_bytes >= LARGE_BYTES);
    for (int kind = SHARED; kind <= SHARED_TWICE; kind++) {
        int64_t peak = find_event(LIFECYCLE_EXIT, pids[kind])->peak_rss_bytes;
        assert_true(peak > 0 && peak < LARGE_BYTES / 2);
    }
    assert_false(int_is_known(find_event(LIFECYCLE_EXIT, pids[WITHOUT_EXEC])->peak_rss_bytes));
    munmap(pids, sizeof(*pids) * KINDS);
}

#define WRITTEN_BYTES (1 << 20)

static void write_file(void)
{
    FILE *file = tmpfile(); /* in the directory for temporary files: it may be in memory */
    static char bytes[WRITTEN_BYTES];

    fwrite(bytes, sizeof(bytes), 1, file);
    fclose(file);
}

static void *write_in_thread(void *argument _unused_)
{
    write_file();
    return NULL;
}

static int64_t written_bytes(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_oublock * 512;
}

/* The I/O of a process includes that of its ended threads, but not of its reaped children. */
static void test_own_io(void **state _unused_)
{
    int64_t *expected = mmap(NULL, sizeof(*expected) * 2, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;

    forget_all();
    pid_t parent = fork_tagged(34);
    if (parent == 0) {
        pid_t child = fork();
        if (child == 0) {
            write_file();
            expected[0] = written_bytes();
            _exit(0);
        }
        waitpid(child, NULL, 0);
        pthread_create(&thread, NULL, write_in_thread, NULL);
        pthread_join(thread, NULL);
        write_file();
        expected[1] = written_bytes();
        _exit(0);
    }
    waitpid(parent, NULL, 0);
    await_end(parent);
    for (size_t i = 0; i < seen.events.count; i++) {
        const struct lifecycle_event *end = &seen.events.items[i];
        if (end->kind == LIFECYCLE_EXIT)
            assert_int_equal(end->write_bytes, expected[end->pid == parent]);
    }
    if (expected[0])
        assert_in_range(expected[1], 2 * WRITTEN_BYTES, 2 * WRITTEN_BYTES + WRITTEN_BYTES / 2);
    munmap(expected, sizeof(*expected) * 2);
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

/* Even if the task leaves the CPU long after its parent was woken. */
static void test_children_end_before_their_parent(void **state _unused_)
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
        kill(target, SIGCHLD); /* routine: not reported */
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

static void test_fault_signal_comes_from_kernel(void **state _unused_)
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

/* The kernel kills a process that reaches its limit of CPU time; a process that another one kills
 * has not reached it. */
static void test_limit_of_cpu_time(void **state _unused_)
{
    for (int is_reached = 0; is_reached < 2; is_reached++) {
        rlim_t seconds = is_reached ? 1 : 1000;
        forget_all();
        pid_t target = fork_tagged(33);
        if (target == 0) {
            setrlimit(RLIMIT_CPU, &(struct rlimit){seconds, seconds});
            volatile bool is_endless = is_reached;
            while (is_endless)
                ;
            kill(getpid(), SIGKILL);
        }
        waitpid(target, NULL, 0);
        await_end(target);
        const struct lifecycle_event *sent = await_signal(target);
        assert_int_equal(sent->signal_num, SIGKILL);
        assert_int_equal(sent->sender_pid, is_reached ? 0 : target);
        assert_int_equal(sent->cpu_limit_sec, is_reached ? 1 : 0);
    }
}

/* A timer sends SIGINT as the kernel does, but no terminal is involved. */
static void test_timer_signal_is_not_from_terminal(void **state _unused_)
{
    forget_all();
    pid_t target = fork_tagged(31);
    if (target == 0) {
        timer_t timer;
        timer_create(CLOCK_MONOTONIC,
                     &(struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGINT},
                     &timer);
        timer_settime(timer, 0, &(struct itimerspec){.it_value.tv_nsec = 1000000}, NULL);
        wait_for_ever();
    }
    waitpid(target, NULL, 0);
    await_end(target);
    const struct lifecycle_event *sent = await_signal(target);
    assert_int_equal(sent->signal_num, SIGINT);
    assert_int_equal(sent->sender_pid, 0);
    assert_false(sent->is_from_terminal);
}

/* Ctrl-C in a terminal that the target controls. */
static void test_key_of_a_terminal(void **state _unused_)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);

    forget_all();
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    pid_t target = fork_tagged(32);
    if (target == 0) {
        setsid();
        open(ptsname(master), O_RDWR);
        write(master, "\x03", 1);
        wait_for_ever();
    }
    waitpid(target, NULL, 0);
    close(master);
    await_end(target);
    const struct lifecycle_event *sent = await_signal(target);
    assert_int_equal(sent->signal_num, SIGINT);
    assert_true(sent->is_from_terminal);
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
    assert_int_equal(count(LIFECYCLE_EXIT, 12), 2); /* and that of the child that it forked then */
}

/* A process that existed before: its threads, and the children that they fork, are tagged from then
 * on. */
static void test_tagged_later(void **state _unused_)
{
    forget_all();
    struct animal animal = animal_start(do_nothing);
    assert_int_equal(kernel_probe_drain(probe, note, NULL), 0);
    assert_int_equal(seen.events.count, 0);
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

static int starts[2];

static void *exec_on_request(void *argument)
{
    char byte;

    read(starts[0], &byte, 1);
    return exec_in_thread(argument);
}

static void wait_to_exec_in_thread(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, exec_on_request, NULL);
}

/* A thread that existed before takes the tag with it when it executes a program. */
static void test_thread_tagged_later(void **state _unused_)
{
    forget_all();
    assert_int_equal(pipe2(starts, O_CLOEXEC), 0);
    struct animal animal = animal_start(wait_to_exec_in_thread);
    assert_int_equal(kernel_probe_tag(probe, animal.pid, 15), 0);
    assert_int_equal(write(starts[1], "", 1), 1);
    waitpid(animal.pid, NULL, 0);
    assert_int_equal(kernel_probe_drain(probe, note, NULL), 0);
    assert_int_equal(count(LIFECYCLE_EXEC, 15), 2); /* the shell, and the program that it starts */
    await_end(animal.pid);
    assert_int_equal(find_event(LIFECYCLE_EXIT, animal.pid)->tag, 15);

    struct animal untagged = animal_start(wait_to_exec_in_thread);
    assert_int_equal(kernel_probe_tag(probe, untagged.pid, 15), 0);
    assert_int_equal(kernel_probe_tag(probe, untagged.pid, 0), 0);
    forget_all();
    assert_int_equal(write(starts[1], "", 1), 1);
    waitpid(untagged.pid, NULL, 0);
    assert_int_equal(kernel_probe_drain(probe, note, NULL), 0);
    assert_int_equal(seen.events.count, 0);
    close(starts[0]);
    close(starts[1]);
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

/* Waits until the reader sleeps. A descriptor that was woken before stays readable until it is
 * polled while the ring is empty. */
static void fall_asleep(struct kernel_probe *of)
{
    do
        assert_true(kernel_probe_drain(of, note_nothing, NULL) >= 0);
    while (!kernel_probe_sleep(of) || is_woken(of));
}

static pid_t start_untagged(void)
{
    pid_t pid = fork();

    if (pid == 0)
        wait_for_ever();
    return pid;
}

struct crowd {
    size_t events; /* of all processes */
    int own_forks; /* by this one */
    int oom_kills; /* of any process: each wakes the reader */
};

static void note_crowd(void *context, const struct lifecycle_event *event)
{
    struct crowd *crowd = context;

    crowd->events++;
    crowd->own_forks += event->kind == LIFECYCLE_FORK && event->ppid == getpid();
    crowd->oom_kills += event->kind == LIFECYCLE_OOM;
}

/* A quarter of the ring (RING_BYTES), and the largest record with its header. */
#define WAKE_BYTES      (1024 * 1024)
#define EVENT_BYTES_MAX (sizeof(struct kernel_exec) + 8)

/* Events of processes without a tag wake the reader only when a quarter of the ring is full: by
 * this process and by all others on the machine. They are kept for the reader. */
static void test_untagged_events_do_not_wake(void **state _unused_)
{
    struct kernel_probe *all;
    struct kernel_probe_error refusal;
    struct crowd crowd;
    int forks;

    const struct kernel_probe_options options = {.proc_root = PROC_ROOT, .wants_all = true};
    assert_int_equal(kernel_probe_open(&options, &all, &refusal), 0);
    do { /* until these events woke the reader, and not others */
        crowd = (struct crowd){0};
        fall_asleep(all);
        for (forks = 0; !is_woken(all); forks++)
            fork_and_reap();
        assert_true(kernel_probe_drain(all, note_crowd, &crowd) >= 0);
    } while (crowd.oom_kills);
    assert_true(crowd.events >= WAKE_BYTES / EVENT_BYTES_MAX);
    /* A storm of other processes may overflow the ring before this process is scheduled. */
    assert_true(kernel_probe_lost(all) || crowd.own_forks == forks);

    pid_t target = start_untagged();
    assert_int_equal(kernel_probe_tag(all, target, 11), 0);
    fall_asleep(all);
    kill(target, SIGKILL);
    waitpid(target, NULL, 0);
    assert_int_equal(poll(&(struct pollfd){.fd = kernel_probe_fd(all), .events = POLLIN}, 1, -1),
                     1);
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

static int tear_down(void **state)
{
    forget_all();
    return kernel_world_tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storm),
        cmocka_unit_test(test_peak_before_exec),
        cmocka_unit_test(test_own_io),
        cmocka_unit_test(test_children_end_before_their_parent),
        cmocka_unit_test(test_signals_and_their_senders),
        cmocka_unit_test(test_fault_signal_comes_from_kernel),
        cmocka_unit_test(test_limit_of_cpu_time),
        cmocka_unit_test(test_timer_signal_is_not_from_terminal),
        cmocka_unit_test(test_key_of_a_terminal),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_tagged_later),
        cmocka_unit_test(test_thread_tagged_later),
        cmocka_unit_test(test_untagged_events_do_not_wake),
        cmocka_unit_test(test_hostile_command_lines),
    };

    if (!kernel_world_is_allowed())
        return 0;
    return cmocka_run_group_tests(tests, kernel_world_set_up, tear_down);
}
