/* Runs a command and delays the exec event of its first child until that child has ended:
 * `late-exec CMD…`. Exits with the command's status.
 *
 * Imitates a busy machine: the kernel takes the child off the CPU after it has executed its
 * program and before it reports the exec, until the command waits for events. Then it keeps the
 * command off the CPU until the child has ended. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAILURE 125

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "late-exec: %s: %s\n", what, strerror(errno));
    exit(FAILURE);
}

static int status_of(int wait_status)
{
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/* Lets both run until the child stops because it has executed its program. Exits if the command
 * ends first. */
static pid_t await_exec(pid_t command)
{
    int status;

    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0)
            fail("wait");
        if (!WIFSTOPPED(status) && pid == command)
            exit(status_of(status));
        if (!WIFSTOPPED(status))
            continue;
        int event = status >> 16;
        if (event == PTRACE_EVENT_EXEC && pid != command)
            return pid;
        if (ptrace(PTRACE_CONT, pid, 0, event ? 0 : WSTOPSIG(status)) < 0)
            fail("continue");
    }
}

/* The number of the system call that a process sleeps in; -1: it runs. */
static long current_call(pid_t pid)
{
    char path[64];
    long number = -1;

    snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        fail(path);
    if (fscanf(file, "%ld", &number) != 1)
        number = -1;
    fclose(file);
    return number;
}

static bool waits_for_events(pid_t pid)
{
    long number = current_call(pid);

#ifdef SYS_epoll_wait
    if (number == SYS_epoll_wait)
        return true;
#endif
    return number == SYS_epoll_pwait;
}

/* Stops the command and returns the signal that is still to be delivered to it; 0: none. */
static int stop(pid_t command)
{
    int status;

    if (ptrace(PTRACE_INTERRUPT, command, 0, 0) < 0 || waitpid(command, &status, __WALL) < 0)
        fail("interrupt");
    if (!WIFSTOPPED(status))
        exit(status_of(status));
    return status >> 16 ? 0 : WSTOPSIG(status);
}

/* Lets the child run, but not its own children, until it has ended. The command gets its status. */
static void await_end(pid_t child)
{
    int status, number = 0;

    if (ptrace(PTRACE_SETOPTIONS, child, 0, 0) < 0)
        fail("options");
    do {
        if (ptrace(PTRACE_CONT, child, 0, number) < 0 || waitpid(child, &status, __WALL) < 0)
            fail("continue");
        number = WIFSTOPPED(status) && !(status >> 16) ? WSTOPSIG(status) : 0;
    } while (WIFSTOPPED(status));
}

int main(int argc, char **argv)
{
    const long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
    const struct timespec moment = {.tv_nsec = 1000000};
    int status;

    if (argc < 2) {
        fprintf(stderr, "usage: late-exec CMD…\n");
        return FAILURE;
    }
    pid_t command = fork();
    if (command == 0) {
        raise(SIGSTOP);
        execvp(argv[1], argv + 1);
        _exit(FAILURE);
    }
    if (command < 0 || waitpid(command, &status, WUNTRACED) < 0)
        fail("fork");
    if (ptrace(PTRACE_SEIZE, command, 0, options) < 0 || kill(command, SIGCONT) < 0)
        fail("trace");
    pid_t child = await_exec(command);
    while (!waits_for_events(command))
        nanosleep(&moment, NULL);
    int number = stop(command);
    await_end(child);
    /* LeakSanitizer does not work in a traced process. */
    if (ptrace(PTRACE_DETACH, command, 0, number) < 0 || waitpid(command, &status, 0) < 0)
        fail("detach");
    return status_of(status);
}
