#include "loop/reaper.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/wait.h>

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

int reaper_become_subreaper(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ? -errno : 0;
}
