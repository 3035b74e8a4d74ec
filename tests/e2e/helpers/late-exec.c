/* Runs a command whose first child is kept from the CPU for a while when it has executed its own
 * program, before the kernel reports that: `late-exec MSEC CMD…`. Ends as the command does.
 *
 * What a busy machine does now and then. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAILURE 125

static int fail(const char *what)
{
    fprintf(stderr, "late-exec: %s: %s\n", what, strerror(errno));
    return FAILURE;
}

static void pause_for(long msec)
{
    const struct timespec time = {.tv_sec = msec / 1000, .tv_nsec = msec % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* Passes on whatever stops the two until the child has executed; 0 or -1. */
static int hold_child(pid_t command, long msec)
{
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
        int event = status >> 16;
        if (!WIFSTOPPED(status))
            return -1;
        if (event == PTRACE_EVENT_EXEC && pid != command) {
            pause_for(msec);
            return ptrace(PTRACE_DETACH, pid, 0, 0) < 0 ? -1 : 0;
        }
        if (ptrace(PTRACE_CONT, pid, 0, event ? 0 : WSTOPSIG(status)) < 0)
            return -1;
    }
    return -1;
}

/* It goes on without us: a sanitizer cannot look for leaks in a process that is traced. */
static int let_go(pid_t command)
{
    int status;

    if (ptrace(PTRACE_INTERRUPT, command, 0, 0) < 0 || waitpid(command, &status, __WALL) < 0)
        return -1;
    int signal = status >> 16 ? 0 : WSTOPSIG(status);
    return ptrace(PTRACE_DETACH, command, 0, signal) < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    const long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
    long msec = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
    int status;

    if (msec <= 0)
        return fail("needs MSEC and a command");
    pid_t command = fork();
    if (command == 0) {
        raise(SIGSTOP);
        execvp(argv[2], argv + 2);
        _exit(FAILURE);
    }
    if (command < 0 || waitpid(command, &status, WUNTRACED) < 0)
        return fail("fork");
    if (ptrace(PTRACE_SEIZE, command, 0, options) < 0 || kill(command, SIGCONT) < 0 ||
        hold_child(command, msec) < 0 || let_go(command) < 0)
        return fail("ptrace");
    if (waitpid(command, &status, 0) < 0)
        return fail("wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
