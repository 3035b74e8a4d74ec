/* The commands that end-to-end tests run under sonde: one program with sub-commands.
 *
 * A sub-command that uses CPU prints its own getrusage figures, so that a test can compare. One
 * that a test observes while it lives prints "ready PID" and stays until its stdin ends. Nothing
 * here waits for a fixed time unless that time is an argument. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "victim: %s: %s\n", what, strerror(errno));
    exit(99);
}

static long number(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (!*text || *end || value < 0) {
        fprintf(stderr, "victim: '%s' is not a number\n", text);
        exit(99);
    }
    return value;
}

/* ---- CPU and time ---- */

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;

    if (clock_gettime(clock, &now) < 0)
        fail("clock_gettime");
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

/* Uses this much CPU time of the calling thread. */
static void burn_ms(long ms)
{
    int64_t end = clock_ms(CLOCK_THREAD_CPUTIME_ID) + ms;
    volatile uint64_t sink = 0;

    while (clock_ms(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 200000; i++)
            sink = sink + (uint64_t)i;
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double cpu_of(int who)
{
    struct rusage usage;

    if (getrusage(who, &usage) < 0)
        fail("getrusage");
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

static void print_cpu(void)
{
    printf("cpu %.6f\n", cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN));
    fflush(stdout);
}

static void print_ready(void)
{
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
}

static void wait_for_end_of_stdin(void)
{
    char byte;
    ssize_t n;

    while ((n = read(STDIN_FILENO, &byte, 1)) > 0 || (n < 0 && errno == EINTR))
        ;
}

static pid_t fork_or_fail(void)
{
    pid_t pid = fork();

    if (pid < 0)
        fail("fork");
    return pid;
}

static void reap_all(void)
{
    while (wait(NULL) > 0 || errno == EINTR)
        ;
}

static void *burn_thread(void *ms)
{
    burn_ms(*(const long *)ms);
    return NULL;
}

/* burn MS [THREADS]: MS of CPU in each thread. */
static int burn(char **arguments)
{
    long ms = number(arguments[0]);
    long threads = arguments[1] ? number(arguments[1]) : 1;
    pthread_t started[64];

    if (threads > 64)
        fail("too many threads");
    for (long i = 1; i < threads; i++)
        if (pthread_create(&started[i], NULL, burn_thread, &ms) != 0)
            fail("pthread_create");
    burn_ms(ms);
    for (long i = 1; i < threads; i++)
        pthread_join(started[i], NULL);
    print_cpu();
    return 0;
}

/* burn-children COUNT MS: that many at the same time; reaps them. */
static int burn_children(char **arguments)
{
    long count = number(arguments[0]), ms = number(arguments[1]);

    for (long i = 0; i < count; i++)
        if (fork_or_fail() == 0) {
            burn_ms(ms);
            _exit(0);
        }
    reap_all();
    print_cpu();
    return 0;
}

/* busy: uses CPU until stdin ends. */
static int busy(char **arguments)
{
    (void)arguments;
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    print_ready();
    for (char byte; read(STDIN_FILENO, &byte, 1) != 0;)
        burn_ms(1);
    return 0;
}

/* ---- memory ---- */

static char *touch(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        fail("mmap");
    for (size_t i = 0; i < bytes; i += 4096)
        memory[i] = 1;
    return memory;
}

/* alloc MIB MS: touches MIB of memory and ends after MS. */
static int alloc(char **arguments)
{
    touch((size_t)number(arguments[0]) * MIB);
    sleep_ms(number(arguments[1]));
    return 0;
}

/* alloc-exec MIB PROGRAM...: touches MIB of memory, then executes the program. */
static int alloc_exec(char **arguments)
{
    touch((size_t)number(arguments[0]) * MIB);
    execvp(arguments[1], arguments + 1);
    fail("exec");
}

/* overlap COUNT MIB: that many processes of that size, all alive together until stdin ends. */
static int overlap(char **arguments)
{
    long count = number(arguments[0]), mib = number(arguments[1]);
    int ready[2], go[2];
    char byte = 0;

    if (pipe(ready) < 0 || pipe(go) < 0)
        fail("pipe");
    for (long i = 0; i < count; i++)
        if (fork_or_fail() == 0) {
            close(go[1]);
            touch((size_t)mib * MIB);
            if (write(ready[1], &byte, 1) != 1)
                fail("write");
            _exit(read(go[0], &byte, 1) == 0 ? 0 : 1);
        }
    for (long i = 0; i < count; i++)
        if (read(ready[0], &byte, 1) != 1)
            fail("read");
    wait_for_end_of_stdin();
    close(go[1]);
    reap_all();
    return 0;
}

/* ---- families ---- */

/* fork-storm COUNT [vfork]: children that end at once, one after the other. */
static int fork_storm(char **arguments)
{
    long count = number(arguments[0]);
    bool by_vfork = arguments[1] && strcmp(arguments[1], "vfork") == 0;

    for (long i = 0; i < count; i++) {
        pid_t pid = by_vfork ? vfork() : fork();
        if (pid == 0)
            _exit(0);
        if (pid < 0)
            fail("fork");
        if (waitpid(pid, NULL, 0) != pid)
            fail("waitpid");
    }
    print_cpu();
    return 0;
}

/* crowd COUNT [MS]: that many children at once, each sleeping for MS, or until stdin ends. */
static int crowd(char **arguments)
{
    long count = number(arguments[0]), ms = arguments[1] ? number(arguments[1]) : 0;

    for (long i = 0; i < count; i++)
        if (fork_or_fail() == 0) {
            if (arguments[1])
                sleep_ms(ms);
            else
                wait_for_end_of_stdin();
            _exit(0);
        }
    print_ready();
    reap_all();
    return 0;
}

/* ignore-children COUNT MS: SIGCHLD is ignored, so the kernel discards what the children used;
 * they print it themselves. */
static int ignore_children(char **arguments)
{
    long count = number(arguments[0]), ms = number(arguments[1]);
    double *used = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double sum = 0;

    if (used == MAP_FAILED || count > 64)
        fail("mmap");
    signal(SIGCHLD, SIG_IGN);
    for (long i = 0; i < count; i++)
        if (fork_or_fail() == 0) {
            burn_ms(ms);
            used[i] = cpu_of(RUSAGE_SELF);
            _exit(0);
        }
    reap_all();
    for (long i = 0; i < count; i++)
        sum += used[i];
    printf("cpu %.6f\nkernel %.6f\n", sum + cpu_of(RUSAGE_SELF), cpu_of(RUSAGE_CHILDREN));
    return 0;
}

/* no-child-wait COUNT MS: one child after the other, discarded by the kernel as above, but because
 * of a flag (SA_NOCLDWAIT) that is not visible from outside. */
static int no_child_wait(char **arguments)
{
    struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};

    sigaction(SIGCHLD, &action, NULL);
    for (long i = 0; i < number(arguments[0]); i++) {
        if (fork_or_fail() == 0) {
            burn_ms(number(arguments[1]));
            _exit(0);
        }
        reap_all();
    }
    print_cpu();
    return 0;
}

/* sibling MS: clones a child of its parent (CLONE_PARENT), which burns MS in a child of its own and
 * outlives this process. */
static int sibling(char **arguments)
{
    int ended[2];
    char byte;

    if (pipe(ended) < 0)
        fail("pipe");
    long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid < 0)
        fail("clone");
    if (pid == 0) {
        if (fork() == 0) {
            burn_ms(number(arguments[0]));
            _exit(0);
        }
        wait(NULL);
        close(ended[0]);
        close(ended[1]);
        close(STDOUT_FILENO);
        wait_for_end_of_stdin();
        _exit(0);
    }
    close(ended[1]);
    if (read(ended[0], &byte, 1) < 0)
        fail("read");
    return 0;
}

/* Forks twice and detaches, as a daemon does; true in the grandchild. The child in between is
 * reaped. */
static bool become_daemon(void)
{
    pid_t pid = fork_or_fail();

    if (pid > 0) {
        waitpid(pid, NULL, 0);
        return false;
    }
    if (setsid() < 0)
        fail("setsid");
    if (fork_or_fail() > 0)
        _exit(0);
    return true;
}

/* orphan MS: a daemon that burns MS; ends after it, without being its parent. */
static int orphan(char **arguments)
{
    struct {
        pid_t pid;
        double cpu;
    } daemon;
    int channel[2], seen[2];

    if (pipe(channel) < 0 || pipe(seen) < 0)
        fail("pipe");
    if (become_daemon()) {
        close(seen[1]);
        burn_ms(number(arguments[0]));
        daemon.pid = getpid();
        daemon.cpu = cpu_of(RUSAGE_SELF);
        if (write(channel[1], &daemon, sizeof(daemon)) < 0)
            fail("write");
        _exit((int)read(seen[0], &daemon, 1));
    }
    if (read(channel[0], &daemon, sizeof(daemon)) != sizeof(daemon))
        fail("the daemon said nothing");
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, daemon.pid, 0), .events = POLLIN};
    close(seen[1]);
    poll(&ended, 1, -1);
    printf("cpu %.6f\n", daemon.cpu + cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN));
    return 0;
}

/* daemon FIFO [MS]: leaves a daemon behind that writes its pid to FIFO, burns MS, and ends when
 * that was taken and FIFO.end can be read to its end. */
static int leave_daemon(char **arguments)
{
    char path[4096];

    if (!become_daemon())
        return 0;
    FILE *fifo = fopen(arguments[0], "w");
    if (!fifo)
        fail(arguments[0]);
    fprintf(fifo, "%d\n", (int)getpid());
    fclose(fifo);
    snprintf(path, sizeof(path), "%s.end", arguments[0]);
    int end = open(path, O_RDONLY);
    if (arguments[1])
        burn_ms(number(arguments[1]));
    while (read(end, path, sizeof(path)) > 0)
        ;
    return 0;
}

struct leaderless {
    long ms;
    size_t bytes;
    char *memory;
};

/* Frees the memory before it prints: at the end the kernel would charge the time for that to the
 * process, and it could no longer be printed. */
static void *leaderless(void *argument)
{
    const struct leaderless *left = argument;

    burn_ms(left->ms);
    if (left->memory)
        munmap(left->memory, left->bytes);
    print_cpu();
    exit(0);
}

/* leader-exit MS [MIB]: the main thread ends, another one burns on. */
static int leader_exit(char **arguments)
{
    static struct leaderless left;
    pthread_t thread;

    left.ms = number(arguments[0]);
    if (arguments[1]) {
        left.bytes = (size_t)number(arguments[1]) * MIB;
        left.memory = touch(left.bytes);
    }
    if (pthread_create(&thread, NULL, leaderless, &left) != 0)
        fail("pthread_create");
    pthread_exit(NULL);
}

/* zombies COUNT: children that have ended and are not reaped, until stdin ends. */
static int zombies(char **arguments)
{
    long count = number(arguments[0]);
    siginfo_t info;

    for (long i = 0; i < count; i++) {
        pid_t pid = fork_or_fail();
        if (pid == 0)
            _exit(0);
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT); /* it has ended and remains a zombie */
        printf("zombie %d\n", (int)pid);
    }
    print_ready();
    wait_for_end_of_stdin();
    return 0;
}

/* ---- signals ---- */

/* count-signals FILE: appends "NUMBER SENDER" for each signal; SIGPROF ends it. */
static int count_signals(char **arguments)
{
    int file = open(arguments[0], O_WRONLY | O_CREAT | O_APPEND, 0600);
    sigset_t all;

    if (file < 0)
        fail(arguments[0]);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    print_ready();
    for (;;) {
        siginfo_t info;
        int received = sigwaitinfo(&all, &info);
        if (received == SIGPROF)
            return 0;
        if (received > 0)
            dprintf(file, "%d %d\n", received, (int)info.si_pid);
    }
}

static int handled_file;

static void note_signal(int received, siginfo_t *info, void *context)
{
    int saved = errno;

    (void)context;
    dprintf(handled_file, "%d %d\n", received, (int)info->si_pid);
    errno = saved;
}

/* handle FILE SIGNAL…: the same for these signals, by handlers; exits with status 7 once FILE.end
 * exists. */
static int handle(char **arguments)
{
    struct sigaction action = {.sa_sigaction = note_signal, .sa_flags = SA_SIGINFO};
    char end[4096];

    handled_file = open(arguments[0], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (handled_file < 0)
        fail(arguments[0]);
    snprintf(end, sizeof(end), "%s.end", arguments[0]);
    for (char **argument = arguments + 1; *argument; argument++)
        sigaction((int)number(*argument), &action, NULL);
    print_ready();
    while (access(end, F_OK) != 0)
        sleep_ms(10);
    return 7;
}

/* ---- names ---- */

/* named NAME [ARGUMENT…]: sets its name; its arguments are only shown. */
static int named(char **arguments)
{
    if (prctl(PR_SET_NAME, arguments[0]) < 0)
        fail("prctl");
    print_ready();
    wait_for_end_of_stdin();
    return 0;
}

static void *idle_thread(void *unused)
{
    while (true)
        pause();
    return unused;
}

/* shape THREADS FDS MIB: that many threads, descriptors beyond the standard ones, and memory. */
static int shape(char **arguments)
{
    pthread_t thread;

    for (long i = 1; i < number(arguments[0]); i++)
        if (pthread_create(&thread, NULL, idle_thread, NULL) != 0)
            fail("pthread_create");
    for (long i = 0; i < number(arguments[1]); i++)
        if (dup(STDIN_FILENO) < 0)
            fail("dup");
    touch((size_t)number(arguments[2]) * MIB);
    print_ready();
    wait_for_end_of_stdin();
    return 0;
}

/* ---- the state that a process is started with ---- */

static bool is_passed_on(const char *line)
{
    static const char *const names[] = {"SigPnd", "ShdPnd", "SigBlk",     "SigIgn",
                                        "SigCgt", "Cap",    "Cpus",       "Umask",
                                        "Uid",    "Gid",    "NoNewPrivs", "Groups"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strncmp(line, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Reads the kernel's masks: libc hides the two signals that it reserves. */
static void print_status(FILE *out)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");

    if (!status)
        fail("/proc/self/status");
    while (fgets(line, sizeof(line), status))
        if (is_passed_on(line))
            fputs(line, out);
    fclose(status);
}

static void print_limits(FILE *out)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)i, &limit) == 0)
            fprintf(out, "limit %d %llu %llu\n", i, (unsigned long long)limit.rlim_cur,
                    (unsigned long long)limit.rlim_max);
    }
}

static void print_descriptors(FILE *out)
{
    for (int fd = 0; fd < 1024; fd++) {
        char link[64], target[4096];
        int flags = fcntl(fd, F_GETFD);

        if (flags < 0)
            continue;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, target, sizeof(target) - 1);
        target[length < 0 ? 0 : length] = '\0';
        fprintf(out, "fd %d %s flags %x mode %x\n", fd, target, (unsigned)flags,
                (unsigned)fcntl(fd, F_GETFL));
    }
}

static int read_option(int option)
{
    int value = -1;

    prctl(option, &value, 0, 0, 0);
    return value;
}

static void print_place(FILE *out)
{
    char cwd[4096];

    fprintf(out, "cwd %s\n", getcwd(cwd, sizeof(cwd)));
    fprintf(out, "nice %d\n", getpriority(PRIO_PROCESS, 0));
    fprintf(out, "pgid %d\nsid %d\n", (int)getpgrp(), (int)getsid(0));
    fprintf(out, "foreground %d\n", (int)tcgetpgrp(STDIN_FILENO));
    fprintf(out, "scheduler %d\n", sched_getscheduler(0));
    fprintf(out, "ioprio %ld\n", syscall(SYS_ioprio_get, 1, 0));
    fprintf(out, "timer slack %d\n", prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
    fprintf(out, "dumpable %d\n", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
    fprintf(out, "death signal %d\n", read_option(PR_GET_PDEATHSIG));
    fprintf(out, "subreaper %d\n", read_option(PR_GET_CHILD_SUBREAPER));
}

/* state FILE: everything that must be as `env PROGRAM` would pass it. FILE is opened last, so that
 * it is not among the descriptors. */
static int state(char **arguments)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        fail("open_memstream");
    print_descriptors(out);
    print_status(out);
    print_limits(out);
    print_place(out);
    for (char **variable = environ; *variable; variable++)
        fprintf(out, "environment %s\n", *variable);
    fclose(out);

    int file = open(arguments[0], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, text, length) != (ssize_t)length)
        fail(arguments[0]);
    free(text);
    return 0;
}

static const struct {
    const char *name;
    int min_arguments;
    int (*run)(char **arguments);
} commands[] = {
    {"burn", 1, burn},
    {"burn-children", 2, burn_children},
    {"busy", 0, busy},
    {"alloc", 2, alloc},
    {"alloc-exec", 2, alloc_exec},
    {"overlap", 2, overlap},
    {"fork-storm", 1, fork_storm},
    {"crowd", 1, crowd},
    {"ignore-children", 2, ignore_children},
    {"no-child-wait", 2, no_child_wait},
    {"sibling", 1, sibling},
    {"orphan", 1, orphan},
    {"daemon", 1, leave_daemon},
    {"leader-exit", 1, leader_exit},
    {"zombies", 1, zombies},
    {"count-signals", 1, count_signals},
    {"handle", 1, handle},
    {"named", 1, named},
    {"shape", 3, shape},
    {"state", 1, state},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(*commands); i++)
        if (strcmp(commands[i].name, argv[1]) == 0 && argc - 2 >= commands[i].min_arguments)
            return commands[i].run(argv + 2);
    fprintf(stderr, "victim: unknown command, or arguments are missing\n");
    return 99;
}
