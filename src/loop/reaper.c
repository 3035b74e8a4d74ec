#include "loop/reaper.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/cleanup.h"

/* Limits a wait to the children of this thread. These include orphans, because the kernel gives
 * them to the first thread. A library may have children in another thread, for which it waits
 * itself. */
#define OWN_THREAD __WNOTHREAD

/* Reports the end of a helper to helpers_reap(). Discards its stops and continues. */
static void pass_to_helpers(struct helpers *helpers, const siginfo_t *info)
{
    siginfo_t discarded;

    if (info->si_code == CLD_STOPPED || info->si_code == CLD_CONTINUED)
        waitid(P_PID, (id_t)info->si_pid, &discarded, WSTOPPED | WCONTINUED | WNOHANG);
    else
        helpers_reap(helpers, info->si_pid);
}

/* Returns a child that is not a helper and can be waited for, 0 if there is none, or a negative
 * errno. */
static pid_t find_ready(struct helpers *helpers)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info,
                   WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT | OWN_THREAD) < 0) {
            if (errno != EINTR)
                return -errno;
            continue;
        }
        if (!helpers_have(helpers, info.si_pid))
            return info.si_pid;
        pass_to_helpers(helpers, &info);
    }
}

int reaper_collect(struct helpers *helpers, child_fn on_child, void *context)
{
    for (;;) {
        struct rusage usage;
        int status;
        pid_t which = helpers && !helpers_is_empty(helpers) ? find_ready(helpers) : -1;
        if (which == 0 || which < -1)
            return which;
        pid_t pid = wait4(which, &status, WNOHANG | WUNTRACED | WCONTINUED | OWN_THREAD, &usage);

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

    /* Usually there is no child, and waitid() is the cheapest way to find out. */
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
