#include "loop/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

static _Noreturn void execute(char *const argv[], const struct signal_state *signals, int report_fd)
{
    signals_restore(signals);
    execvp(argv[0], argv);

    int error = errno;
    while (write(report_fd, &error, sizeof(error)) < 0 && errno == EINTR)
        ;
    _exit(127);
}

/* The errno of a failed exec, or 0: the pipe closes by itself when the program is executed. */
static int read_report(int fd)
{
    int error;
    ssize_t n;

    do
        n = read(fd, &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    return n == sizeof(error) ? error : 0;
}

int spawn_command(char *const argv[], const struct signal_state *signals, pid_t *ret_pid,
                  int *ret_exec_errno)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_close_ int read_fd = pipe_fds[0];
    _cleanup_close_ int write_fd = pipe_fds[1];

    /* fork, not vfork or posix_spawn: the kernel's ru_maxrss survives exec, and a child that shares
     * our memory is charged with all of it; a forked one only with the pages it was given a copy
     * of, which are fewer than any program needs. */
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        execute(argv, signals, write_fd);

    write_fd = close_fd(write_fd);
    int exec_errno = read_report(read_fd);
    if (exec_errno) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        *ret_exec_errno = exec_errno;
        return -ECHILD;
    }
    *ret_pid = pid;
    return 0;
}
