#include "trace/trace-target.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "config/paths.h"
#include "model/field.h"
#include "probe/process-lookup.h"

int trace_fail(char reason[static TRACE_REASON_SIZE], int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason, TRACE_REASON_SIZE, format, arguments);
    va_end(arguments);
    return error;
}

static int check_user(const struct proc_status *status, pid_t pid, int64_t uid, char *reason)
{
    bool is_others = (int_is_known(uid) && status->uid != uid) ||
                     (geteuid() != 0 && status->uid != (int64_t)geteuid());

    if (is_others)
        return trace_fail(reason, -EACCES, "process %d belongs to another user", (int)pid);
    /* The kernel would not let its user trace it either. */
    if (!status->has_one_user || !int_is_known(status->gid))
        return trace_fail(reason, -EPERM,
                          "process %d runs with other rights than its user's and cannot be traced",
                          (int)pid);
    return 0;
}

static int check_kind(const struct proc_status *status, pid_t pid, char *reason)
{
    if (int_is_known(status->tgid) && status->tgid != pid)
        return trace_fail(reason, -EINVAL, "%d is a thread of process %lld: use that pid", (int)pid,
                          (long long)status->tgid);
    if (pid == getpid())
        return trace_fail(reason, -EINVAL, "process %d is sonde itself", (int)pid);
    return 0;
}

static int read_status(pid_t pid, uint64_t *ret_start_ticks, struct proc_status *ret, char *reason)
{
    struct proc_stat stat;

    int r = process_lookup_status(PROC_ROOT, pid, ret_start_ticks, ret);
    if (r == 0)
        r = process_lookup_stat(PROC_ROOT, pid, &stat);
    if (r == -ESRCH || r == -ENOENT)
        return trace_fail(reason, -ESRCH, "process %d is gone", (int)pid);
    if (r < 0)
        return trace_fail(reason, r, "process %d cannot be read: %s", (int)pid, strerror(-r));
    if (stat.state == 'Z' || stat.state == 'X')
        return trace_fail(reason, -ESRCH, "process %d has ended", (int)pid);
    return 0;
}

int trace_target_read(pid_t pid, int64_t uid, struct trace_target *ret,
                      char reason[static TRACE_REASON_SIZE])
{
    struct proc_status status;
    uint64_t start_ticks;

    int r = read_status(pid, &start_ticks, &status, reason);
    if (r == 0)
        r = check_user(&status, pid, uid, reason);
    if (r == 0)
        r = check_kind(&status, pid, reason);
    if (r < 0)
        return r;
    bool is_ours = status.uid == (int64_t)geteuid() && status.gid == (int64_t)getegid();
    *ret = (struct trace_target){
        .pid = pid,
        .start_ticks = start_ticks,
        .user = {.uid = (uid_t)status.uid, .gid = (gid_t)status.gid},
        .needs_user = geteuid() == 0 && !is_ours,
        .tracer_pid = int_is_known(status.tracer_pid) ? (pid_t)status.tracer_pid : 0,
    };
    return 0;
}

/* Uses the short name: the command line may belong to another user. */
int trace_target_fail_busy(const struct trace_target *target, char reason[static TRACE_REASON_SIZE])
{
    struct proc_stat stat;
    bool is_there = process_lookup_stat(PROC_ROOT, target->tracer_pid, &stat) == 0;

    return trace_fail(reason, -EBUSY, "process %d is already traced by process %d (%s)",
                      (int)target->pid, (int)target->tracer_pid, is_there ? stat.name : "gone");
}

int trace_target_fail_no_strace(char reason[static TRACE_REASON_SIZE])
{
    return trace_fail(
        reason, -ENOENT,
        "strace was not found in PATH; install it in a directory that only root and this user can "
        "write");
}
