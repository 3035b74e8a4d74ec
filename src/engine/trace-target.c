#include "engine/trace-target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/peek.h"
#include "model/field.h"

static int refuse(char *words, size_t size, pid_t pid, const char *why, int error)
{
    snprintf(words, size, "process %d %s", (int)pid, why);
    return error;
}

static int check_user(const struct proc_status *status, pid_t pid, char *words, size_t size)
{
    /* The kernel would refuse its user as well. */
    if (!status->has_one_user || !int_is_known(status->gid))
        return refuse(words, size, pid, "runs with other rights than its user's, and is not traced",
                      -EPERM);
    if (geteuid() != 0 && status->uid != (int64_t)geteuid())
        return refuse(words, size, pid, "belongs to another user", -EPERM);
    return 0;
}

int trace_target_read(pid_t pid, struct trace_target *ret, char *words, size_t size)
{
    struct proc_status status;
    uint64_t start_ticks;

    if (pid == getpid())
        return refuse(words, size, pid, "is sonde itself", -EINVAL);
    int r = peek_status(pid, &start_ticks, &status);
    if (r == -ESRCH || r == -ENOENT)
        return refuse(words, size, pid, "is gone", -ESRCH);
    if (r < 0)
        return refuse(words, size, pid, strerror(-r), r);
    r = check_user(&status, pid, words, size);
    if (r < 0)
        return r;
    *ret = (struct trace_target){
        .pid = pid,
        .start_ticks = start_ticks,
        .user = {.uid = (uid_t)status.uid, .gid = (gid_t)status.gid},
        .is_ours = status.uid == (int64_t)geteuid() && status.gid == (int64_t)getegid(),
        .tracer_pid = int_is_known(status.tracer_pid) ? (pid_t)status.tracer_pid : 0,
    };
    return 0;
}
