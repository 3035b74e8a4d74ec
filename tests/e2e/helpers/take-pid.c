/* Starts a command under a given free pid: `take-pid PID CMD…`. Exits with the command's status.
 *
 * Imitates the reuse of a pid, which a test cannot wait for. Needs CAP_CHECKPOINT_RESTORE. Pids of
 * other processes are not affected. */
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pid_t wanted = argc > 2 ? atoi(argv[1]) : 0;
    struct clone_args arguments = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&wanted, .set_tid_size = 1};
    int status;

    long pid = syscall(SYS_clone3, &arguments, sizeof(arguments));
    if (pid == 0)
        execvp(argv[2], argv + 2);
    if (pid <= 0) {
        fprintf(stderr, "take-pid: %s\n", strerror(errno));
        _exit(125);
    }
    if (waitpid((pid_t)pid, &status, 0) < 0)
        return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
