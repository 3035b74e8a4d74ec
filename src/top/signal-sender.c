#include "top/signal-sender.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/paths.h"
#include "probe/process-lookup.h"

/* A snapshot was on its way for a moment when its ages were taken for those of now. No pid comes
 * round again in that time. */
#define BIRTH_SLACK_SECONDS 3.0

static int open_pidfd(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -errno : fd;
}

static int send_to(int pidfd, int number)
{
    return syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) < 0 ? -errno : 0;
}

/* The descriptor is opened first: what it stands for cannot change any more while it is looked at.
 */
int signal_send(const struct signal_target *target, int number)
{
    _cleanup_close_ int pidfd = open_pidfd(target->pid);
    struct proc_stat stat;

    if (pidfd < 0)
        return pidfd;
    int r = process_lookup_stat(PROC_ROOT, target->pid, &stat);
    if (r < 0)
        return -ESRCH;
    double born = (double)stat.start_ticks / (double)sysconf(_SC_CLK_TCK);
    if (!(fabs(born - target->born) <= BIRTH_SLACK_SECONDS))
        return -ESRCH;
    return send_to(pidfd, number);
}
