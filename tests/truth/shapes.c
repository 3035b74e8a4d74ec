/* Jobs whose figures are known or hard to read: one program with sub-commands.
 *
 * A sub-command with `hold` prints "ready PID" when all of its processes have their memory, and
 * ends when its stdin ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "shapes: %s: %s\n", what, strerror(errno));
    _exit(99);
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

/* Waits for the end of a process of another parent. Its descriptors are closed before it ends. */
static void await_end(pid_t pid)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

    if (end.fd < 0 && errno == ESRCH) /* it has been reaped */
        return;
    if (end.fd < 0 || poll(&end, 1, -1) != 1)
        fail("poll");
}

static int64_t cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void burn_user(int64_t ms)
{
    volatile uint64_t sink = 0;

    for (int64_t end = cpu_ms() + ms; cpu_ms() < end;)
        for (int i = 0; i < 100000; i++)
            sink = sink + (uint64_t)i;
}

/* Nearly all of it in the kernel, which fills pages. */
static void burn_system(int64_t ms)
{
    for (int64_t end = cpu_ms() + ms; cpu_ms() < end;) {
        char *area = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (area == MAP_FAILED)
            fail("mmap");
        munmap(area, 2 * MIB);
    }
}

static char *map(size_t bytes, int flags)
{
    char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

    if (area == MAP_FAILED)
        fail("mmap");
    return area;
}

static void touch(char *area, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 4096)
        area[at] = (char)(at >> 12 | 1);
}

/* ---- CPU ---- */

/* children COUNT MS: one after the other, each in user mode; waits for each */
static void children(long *arguments)
{
    for (long i = 0; i < arguments[0]; i++) {
        if (fork_or_fail() == 0) {
            burn_user(arguments[1]);
            _exit(0);
        }
        reap_all();
    }
}

/* system COUNT MS: the same, in the kernel */
static void in_kernel(long *arguments)
{
    for (long i = 0; i < arguments[0]; i++) {
        if (fork_or_fail() == 0) {
            burn_system(arguments[1]);
            _exit(0);
        }
        reap_all();
    }
}

/* teardown COUNT MB: children whose last act is the most expensive one: the kernel frees their
 * memory */
static void teardown(long *arguments)
{
    for (long i = 0; i < arguments[0]; i++) {
        if (fork_or_fail() == 0) {
            size_t bytes = (size_t)arguments[1] * MIB;
            touch(map(bytes, MAP_PRIVATE), bytes);
            _exit(0);
        }
        reap_all();
    }
}

/* unreaped COUNT MS: children that no process waits for, because SIGCHLD is ignored */
static void unreaped(long *arguments)
{
    signal(SIGCHLD, SIG_IGN);
    for (long i = 0; i < arguments[0]; i++)
        if (fork_or_fail() == 0) {
            burn_user(arguments[1]);
            _exit(0);
        }
    reap_all();
}

/* orphan MS: a process that outlives its parents */
static void orphan(long *arguments)
{
    int seen[2];
    pid_t pid;

    if (pipe(seen) < 0)
        fail("pipe");
    if (fork_or_fail() == 0) {
        setsid();
        if (fork_or_fail() > 0)
            _exit(0);
        pid = getpid();
        if (write(seen[1], &pid, sizeof(pid)) != sizeof(pid))
            fail("write");
        burn_user(arguments[0]);
        _exit(0);
    }
    if (read(seen[0], &pid, sizeof(pid)) != sizeof(pid))
        fail("read");
    reap_all();
    await_end(pid);
}

/* sibling MS: a process whose parent is the parent of the one that started it */
static void sibling(long *arguments)
{
    long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid < 0)
        fail("clone");
    if (pid == 0) {
        burn_user(arguments[0]);
        _exit(0);
    }
    await_end((pid_t)pid);
}

/* ends COUNT STATUS SIGNAL: children that end with the status, and as many that the signal kills */
static void ends(long *arguments)
{
    for (long i = 0; i < arguments[0]; i++) {
        if (fork_or_fail() == 0)
            _exit((int)arguments[1]);
        pid_t pid = fork_or_fail();
        if (pid == 0) {
            pause();
            _exit(0);
        }
        kill(pid, (int)arguments[2]);
        reap_all();
    }
}

/* calls COUNT: system calls that nothing else makes: getpriority, and setpgid, which fails */
static void calls(long *arguments)
{
    for (long i = 0; i < arguments[0]; i++) {
        syscall(SYS_getpriority, 0, 0);
        syscall(SYS_setpgid, -1, -1);
    }
}

/* ---- memory ---- */

/* exec-after MB MS: a peak that belongs to the program before an exec; afterwards lives for MS */
static void exec_after(long *arguments)
{
    size_t bytes = (size_t)arguments[0] * MIB;
    char seconds[32];

    touch(map(bytes, MAP_PRIVATE), bytes);
    snprintf(seconds, sizeof(seconds), "%ld.%03ld", arguments[1] / 1000, arguments[1] % 1000);
    execlp("sleep", "sleep", seconds, NULL);
    fail("sleep");
}

/* brief MB: allocates and frees at once */
static void brief(long *arguments)
{
    size_t bytes = (size_t)arguments[0] * MIB;
    char *area = map(bytes, MAP_PRIVATE);

    touch(area, bytes);
    munmap(area, bytes);
}

/* Runs `use` in COUNT children; all hold until stdin ends. */
static void hold(long count, void (*use)(long which, void *context), void *context)
{
    int ready[2], go[2];
    char byte = 0;

    if (pipe(ready) < 0 || pipe(go) < 0)
        fail("pipe");
    for (long i = 0; i < count; i++)
        if (fork_or_fail() == 0) {
            close(go[1]);
            use(i, context);
            if (write(ready[1], &byte, 1) != 1)
                fail("write");
            _exit(read(go[0], &byte, 1) == 0 ? 0 : 1);
        }
    for (long i = 0; i < count; i++)
        if (read(ready[0], &byte, 1) != 1)
            fail("read");
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    close(go[1]);
    reap_all();
}

struct area {
    char *bytes;
    size_t size;
};

static void use_own(long which, void *context)
{
    struct area *area = context;

    (void)which;
    area->bytes = map(area->size, MAP_PRIVATE);
    touch(area->bytes, area->size);
}

static void use_given(long which, void *context)
{
    struct area *area = context;

    (void)which;
    touch(area->bytes, area->size);
}

static void use_own_shared(long which, void *context)
{
    struct area *area = context;

    (void)which;
    area->bytes = map(area->size, MAP_SHARED);
    touch(area->bytes, area->size);
}

static void read_given(long which, void *context)
{
    struct area *area = context;
    volatile char sink = 0;

    (void)which;
    for (size_t at = 0; at < area->size; at += 4096)
        sink = (char)(sink + area->bytes[at]);
}

/* private COUNT MB: each has its own */
static void hold_private(long *arguments)
{
    struct area area = {.size = (size_t)arguments[1] * MIB};

    hold(arguments[0], use_own, &area);
}

/* own-shared COUNT MB: each has a shared mapping that it shares with no other */
static void hold_own_shared(long *arguments)
{
    struct area area = {.size = (size_t)arguments[1] * MIB};

    hold(arguments[0], use_own_shared, &area);
}

/* common-shared COUNT MB: all write to the same pages */
static void hold_common_shared(long *arguments)
{
    struct area area = {.size = (size_t)arguments[1] * MIB};

    area.bytes = map(area.size, MAP_SHARED);
    hold(arguments[0], use_given, &area);
}

/* inherited COUNT MB WRITTEN: children without an exec, each of which writes to some of the memory
 * that they inherited */
static void hold_inherited(long *arguments)
{
    struct area area = {.size = (size_t)arguments[1] * MIB};

    area.bytes = map(area.size, MAP_PRIVATE);
    touch(area.bytes, area.size);
    area.size = (size_t)arguments[2] * MIB;
    hold(arguments[0], use_given, &area);
}

/* inherited-huge COUNT MB WRITTEN: the same, with pages of 2 MiB where the kernel has them */
static void hold_inherited_huge(long *arguments)
{
    struct area area = {.size = (size_t)arguments[1] * MIB};

    area.bytes = map(area.size + 2 * MIB, MAP_PRIVATE);
    area.bytes += (size_t)(-(uintptr_t)area.bytes) % (2 * MIB);
    madvise(area.bytes, area.size, MADV_HUGEPAGE);
    touch(area.bytes, area.size);
    area.size = (size_t)arguments[2] * MIB;
    hold(arguments[0], use_given, &area);
}

/* mapped COUNT MB FILE: all read the same file */
static void hold_mapped(long *arguments)
{
    struct area area = {.size = (size_t)arguments[1] * MIB};
    char name[] = "/tmp/shapes-XXXXXX";
    int fd = mkstemp(name);

    if (fd < 0 || unlink(name) < 0)
        fail(name);
    for (size_t at = 0; at < area.size; at += 4096)
        if (pwrite(fd, &at, sizeof(at), (off_t)at) < 0)
            fail(name);
    if (ftruncate(fd, (off_t)area.size) < 0)
        fail(name);
    area.bytes = mmap(NULL, area.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (area.bytes == MAP_FAILED)
        fail("mmap");
    hold(arguments[0], read_given, &area);
}

/* ---- I/O ---- */

/* io LEVELS MB MS: the process at the end of a chain of parents writes past the page cache to the
 * file `io-file`, reads it back and lives on for MS; each parent waits for its child */
static void input_output(long *arguments)
{
    if (arguments[0] > 1) {
        if (fork_or_fail() == 0) {
            arguments[0]--;
            input_output(arguments);
            _exit(0);
        }
        reap_all();
        return;
    }
    char *buffer = map(MIB, MAP_PRIVATE);
    int fd = open("io-file", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);

    if (fd < 0)
        fail("io-file");
    touch(buffer, MIB);
    for (long i = 0; i < arguments[1]; i++)
        if (write(fd, buffer, MIB) != (ssize_t)MIB)
            fail("io-file");
    if (lseek(fd, 0, SEEK_SET) < 0)
        fail("io-file");
    for (long i = 0; i < arguments[1]; i++)
        if (read(fd, buffer, MIB) != (ssize_t)MIB)
            fail("io-file");
    unlink("io-file");
    usleep((useconds_t)arguments[2] * 1000);
}

static const struct {
    const char *name;
    int arguments;
    void (*run)(long *arguments);
} shapes[] = {
    {"children", 2, children},
    {"system", 2, in_kernel},
    {"teardown", 2, teardown},
    {"unreaped", 2, unreaped},
    {"orphan", 1, orphan},
    {"sibling", 1, sibling},
    {"ends", 3, ends},
    {"calls", 1, calls},
    {"exec-after", 2, exec_after},
    {"brief", 1, brief},
    {"private", 2, hold_private},
    {"own-shared", 2, hold_own_shared},
    {"common-shared", 2, hold_common_shared},
    {"inherited", 3, hold_inherited},
    {"inherited-huge", 3, hold_inherited_huge},
    {"mapped", 2, hold_mapped},
    {"io", 3, input_output},
};

int main(int argc, char **argv)
{
    long numbers[8] = {0};

    for (int i = 2; i < argc && i < 10; i++)
        numbers[i - 2] = strtol(argv[i], NULL, 10);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        if (argc > 1 && strcmp(argv[1], shapes[i].name) == 0 && argc - 2 == shapes[i].arguments) {
            shapes[i].run(numbers);
            return 0;
        }
    fprintf(stderr, "usage: shapes SHAPE NUMBER…\n");
    return 99;
}
