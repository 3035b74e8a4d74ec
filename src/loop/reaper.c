#include "loop/reaper.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/cleanup.h"

int reaper_collect(child_fn on_child, void *context)
{
    for (;;) {
        struct rusage usage;
        int status;
        pid_t pid = wait4(-1, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage);

        if (pid > 0)
            on_child(context, pid, status, &usage);
        else if (pid == 0)
            return 0;
        else if (errno != EINTR)
            return -errno;
    }
}

int reaper_list_children(void (*on_child)(void *context, pid_t pid), void *context)
{
    siginfo_t info;
    int pid;

    /* Mostly there is none, and that is quickly told. */
    if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT) < 0)
        return errno == ECHILD ? 0 : -errno;
    _cleanup_fclose_ FILE *file = fopen("/proc/thread-self/children", "re");
    if (!file)
        return -errno;
    while (fscanf(file, "%d", &pid) == 1)
        on_child(context, (pid_t)pid);
    return 0;
}

int reaper_become_subreaper(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ? -errno : 0;
}
