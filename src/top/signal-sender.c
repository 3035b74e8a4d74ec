#include "top/signal-sender.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "config/paths.h"
#include "probe/process-lookup.h"

/* The birth time is computed from the age in a snapshot, which arrives slightly late. A pid could
 * be reused within this slack only at more than pid_max / BIRTH_SLACK_SECONDS forks per second. */
#define BIRTH_SLACK_SECONDS 3.0

/* Opens the pidfd first, so that it cannot refer to another process after the check. */
int signal_send(const struct signal_target *target, int number)
{
    _cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, target->pid, 0);
    struct proc_stat stat;

    if (pidfd < 0)
        return -errno;
    int r = process_lookup_stat(PROC_ROOT, target->pid, &stat);
    if (r < 0)
        return -ESRCH;
    double born = (double)stat.start_ticks / (double)sysconf(_SC_CLK_TCK);
    if (!(fabs(born - target->born) <= BIRTH_SLACK_SECONDS))
        return -ESRCH;
    return syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) < 0 ? -errno : 0;
}
