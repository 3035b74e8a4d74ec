/* Processes that share memory in different ways and then hold still, so that a test can read the
 * truth. Prints "pid PID" for each process and "ready PID", and ends with its standard input.
 *
 *   sharing fork COUNT MB DIRTY   copies of MB of which each has written to DIRTY
 *   sharing own COUNT MB DIRTY    copies of MB, each with DIRTY of its own
 *   sharing freed COUNT MB 0      copies of MB that the parent has freed
 *   sharing orphans COUNT MB 0    copies of MB whose parent has ended
 *   sharing huge COUNT MB DIRTY   fork, with huge pages
 *   sharing vfork 1 MB 0          a child that uses the memory of its parent
 *   sharing exec COUNT MB 0       programs with MB each
 *   sharing distinct COUNT MB 0   each with shared memory of its own
 *   sharing same COUNT MB 0       all with the same shared memory
 *   sharing file COUNT MB PATH    programs that have mapped the same file
 *   sharing files COUNT MB PATH   programs that have mapped a file each: PATH0, PATH1 and so on */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

/* Each process writes its pid when it is ready. */
static int ready[2];

static void write_to(char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 4096)
        ((volatile char *)at)[i] = 1; /* not read first, which would be a fault of its own */
}

static char *allocate(size_t bytes, int flags)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    return at;
}

static char *fill(size_t bytes, int flags, int advice)
{
    char *at = allocate(bytes, flags);

    madvise(at, bytes, advice); /* harmless where there are none */
    write_to(at, bytes);
    return at;
}

static void map_file(const char *path, size_t bytes)
{
    int fd = open(path, O_RDONLY);
    const volatile char *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);

    if (fd < 0 || at == MAP_FAILED)
        exit(1);
    for (size_t i = 0; i < bytes; i += 4096)
        (void)at[i];
}

static void hold_still(void)
{
    char byte;

    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

static void announce(void)
{
    pid_t pid = getpid();

    if (write(ready[1], &pid, sizeof(pid)) != sizeof(pid))
        exit(1);
}

static void run_child(const char *kind, char *memory, size_t bytes, size_t dirty)
{
    if (strcmp(kind, "own") == 0)
        fill(dirty, MAP_PRIVATE, MADV_NORMAL);
    else if (strcmp(kind, "distinct") == 0)
        fill(bytes, MAP_SHARED, MADV_NORMAL);
    else if (strcmp(kind, "same") == 0)
        write_to(memory, bytes);
    else
        write_to(memory, dirty);
    if (strcmp(kind, "huge") == 0)
        fill(dirty, MAP_PRIVATE, MADV_HUGEPAGE);
    announce();
    hold_still();
    _exit(0);
}

/* `sharing exec|file|files 0 MB PATH` is one of the programs; it has the pipe as descriptor 3. */
static int run_program(const char *kind, size_t bytes, const char *path)
{
    ready[1] = 3;
    if (strncmp(kind, "file", 4) == 0)
        map_file(path, bytes);
    else
        fill(bytes, MAP_PRIVATE, MADV_NORMAL);
    announce();
    hold_still();
    return 0;
}

static void start_program(char **arguments, long number)
{
    char none[] = "0", path[4096];
    char *own[] = {arguments[0], arguments[1], none, arguments[3], path, NULL};

    if (strcmp(arguments[1], "files") == 0)
        snprintf(path, sizeof(path), "%s%ld", arguments[4], number);
    else
        snprintf(path, sizeof(path), "%s", arguments[4]);

    dup2(ready[1], 3);
    execv("/proc/self/exe", own);
    _exit(1);
}

/* As between a vfork and its exec, but without stopping the parent. */
static int run_in_same_memory(void *context)
{
    (void)context;
    announce();
    hold_still();
    return 0;
}

static void start_all(char **arguments)
{
    const char *kind = arguments[1];
    long count = atol(arguments[2]);
    size_t bytes = (size_t)atol(arguments[3]) * MB, dirty = (size_t)atol(arguments[4]) * MB;
    int is_program = strcmp(kind, "exec") == 0 || strncmp(kind, "file", 4) == 0;
    char *memory = NULL;

    if (!is_program && strcmp(kind, "distinct") != 0)
        memory = fill(bytes, strcmp(kind, "same") == 0 ? MAP_SHARED : MAP_PRIVATE,
                      strcmp(kind, "huge") == 0 ? MADV_HUGEPAGE : MADV_NORMAL);
    for (long i = 0; i < count; i++) {
        if (strcmp(kind, "vfork") == 0) {
            clone(run_in_same_memory, allocate(MB, MAP_PRIVATE) + MB, CLONE_VM | SIGCHLD, NULL);
        } else if (fork() == 0) {
            if (is_program)
                start_program(arguments, i);
            run_child(kind, memory, bytes, dirty);
        }
    }
    if (strcmp(kind, "freed") == 0)
        munmap(memory, bytes);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    long count = atol(argv[2]);
    if (count == 0)
        return run_program(argv[1], (size_t)atol(argv[3]) * MB, argv[4]);
    /* above the descriptors that the programs use */
    int pipe_fds[2];
    if (pipe(pipe_fds) < 0)
        return 1;
    ready[0] = fcntl(pipe_fds[0], F_DUPFD, 10);
    ready[1] = fcntl(pipe_fds[1], F_DUPFD, 10);
    close(pipe_fds[0]);
    close(pipe_fds[1]);

    /* A process of its own reports, which ends the wait for all others. */
    pid_t main_process = getpid();
    pid_t reporter = fork();
    if (reporter == 0) {
        for (pid_t pid; count-- && read(ready[0], &pid, sizeof(pid)) == sizeof(pid);)
            printf("pid %d\n", (int)pid);
        printf("pid %d\npid %d\nready %d\n", (int)main_process, (int)getpid(), (int)main_process);
        hold_still();
        _exit(0);
    }
    if (strcmp(argv[1], "orphans") == 0 && fork() == 0) {
        start_all(argv);
        _exit(0);
    }
    if (strcmp(argv[1], "orphans") != 0)
        start_all(argv);
    hold_still();
    while (wait(NULL) > 0)
        ;
    return 0;
}
