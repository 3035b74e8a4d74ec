/* A process that carries out orders of a test: one word per line on stdin, with at most one number,
 * each answered by a line on stdout. So the test decides when an anomaly begins and ends.
 *
 * Its children live until its stdin ends, unless an order says otherwise. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB      ((size_t)1 << 20)
#define FDS_MAX  4096
#define KIDS_MAX 1024

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "puppet: %s: %s\n", what, strerror(errno));
    exit(99);
}

static pid_t fork_or_fail(void)
{
    pid_t pid = fork();

    if (pid < 0)
        fail("fork");
    return pid;
}

/* What a child waits for: the parent's end of the pipe stays open while the parent lives. */
static int life[2];

static _Noreturn void live(int status)
{
    char byte;

    close(life[1]);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    while (read(life[0], &byte, 1) < 0 && errno == EINTR)
        ;
    _exit(status);
}

/* ---- memory ---- */

static char *memory;
static size_t memory_bytes;

/* shrink: frees what "grow" allocated. */
static double shrink(long unused)
{
    (void)unused;
    if (memory)
        munmap(memory, memory_bytes);
    memory = NULL;
    memory_bytes = 0;
    return 0;
}

static char *more_memory(size_t bytes)
{
    if (memory)
        return mremap(memory, memory_bytes, bytes, MREMAP_MAYMOVE);
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* grow MIB: allocates up to that much and touches it; earlier memory stays. */
static double grow(long mib)
{
    size_t bytes = (size_t)mib * MIB;

    memory = more_memory(bytes);
    if (memory == MAP_FAILED)
        fail("mmap");
    for (size_t i = memory_bytes; i < bytes; i += 4096)
        memory[i] = 1;
    memory_bytes = bytes;
    return 0;
}

/* ---- CPU ---- */

static atomic_bool is_busy;
static pthread_t burner;

static void *burn(void *unused)
{
    volatile unsigned long sink = 0;

    while (is_busy)
        sink = sink + 1;
    return unused;
}

/* busy, idle: uses one core, in another thread. */
static double busy(long unused)
{
    (void)unused;
    is_busy = true;
    if (pthread_create(&burner, NULL, burn, NULL) != 0)
        fail("pthread_create");
    return 0;
}

static double idle(long unused)
{
    (void)unused;
    is_busy = false;
    pthread_join(burner, NULL);
    return 0;
}

/* ---- descriptors ---- */

static int fds[FDS_MAX];
static size_t fd_count;

/* open N, close: descriptors. */
static double open_more(long count)
{
    for (long i = 0; i < count && fd_count < FDS_MAX; i++)
        if ((fds[fd_count++] = dup(STDIN_FILENO)) < 0)
            fail("dup");
    return 0;
}

static double close_all(long unused)
{
    (void)unused;
    while (fd_count)
        close(fds[--fd_count]);
    return 0;
}

/* ---- children ---- */

static pid_t kids[KIDS_MAX];
static size_t kid_count;

static void note_kid(pid_t pid)
{
    if (kid_count == KIDS_MAX)
        fail("too many children");
    kids[kid_count++] = pid;
}

/* zombies N: children that have ended and are not reaped before "reap". */
static double zombies(long count)
{
    siginfo_t info;

    for (long i = 0; i < count; i++) {
        pid_t pid = fork_or_fail();
        if (pid == 0)
            _exit(0);
        note_kid(pid);
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    }
    return 0;
}

/* reap: all children, which must have ended. */
static double reap(long unused)
{
    (void)unused;
    while (kid_count)
        waitpid(kids[--kid_count], NULL, 0);
    return 0;
}

/* child: starts one that lives. */
static double child(long unused)
{
    pid_t pid = fork_or_fail();

    (void)unused;
    if (pid == 0)
        live(0);
    note_kid(pid);
    return pid;
}

/* Forks a child that forks again, in its own session, as a daemon does, or in the same one. The
 * child in between ends. */
static pid_t leave_orphan(bool in_own_session)
{
    int channel[2];
    pid_t pid, orphan;

    if (pipe(channel) < 0)
        fail("pipe");
    pid = fork_or_fail();
    if (pid == 0) {
        if (in_own_session && setsid() < 0)
            fail("setsid");
        orphan = fork_or_fail();
        if (orphan == 0) {
            close(channel[1]);
            live(0);
        }
        if (write(channel[1], &orphan, sizeof(orphan)) != sizeof(orphan))
            fail("write");
        _exit(0);
    }
    if (read(channel[0], &orphan, sizeof(orphan)) != sizeof(orphan))
        fail("read");
    waitpid(pid, NULL, 0);
    close(channel[0]);
    close(channel[1]);
    return orphan;
}

/* ---- orders ---- */

static double cpu_of(int who)
{
    struct rusage usage;

    if (getrusage(who, &usage) < 0)
        fail("getrusage");
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* orphan, daemon: returns the pid of the grandchild. */
static double orphan(long unused)
{
    (void)unused;
    return leave_orphan(false);
}

static double leave_daemon(long unused)
{
    (void)unused;
    return leave_orphan(true);
}

/* cpu: CPU time of the process and of the children that it has reaped. */
static double cpu(long unused)
{
    (void)unused;
    return cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN);
}

/* exit STATUS. */
static double end(long status)
{
    exit((int)status);
}

static const struct {
    const char *word;
    double (*obey)(long number); /* returns the answer */
} orders[] = {
    {"grow", grow},      {"shrink", shrink},   {"busy", busy},           {"idle", idle},
    {"open", open_more}, {"close", close_all}, {"zombies", zombies},     {"reap", reap},
    {"child", child},    {"orphan", orphan},   {"daemon", leave_daemon}, {"cpu", cpu},
    {"exit", end},
};

static double obey(const char *word, long number)
{
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++)
        if (strcmp(orders[i].word, word) == 0)
            return orders[i].obey(number);
    errno = EINVAL;
    fail(word);
}

int main(void)
{
    char line[256], word[32];

    if (pipe(life) < 0)
        fail("pipe");
    setvbuf(stdin, NULL, _IONBF, 0); /* no buffered input that a child could read again */
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        long number = 0;
        if (sscanf(line, "%31s %ld", word, &number) < 1)
            continue;
        printf("%.6f\n", obey(word, number));
        fflush(stdout);
    }
    return 0;
}
