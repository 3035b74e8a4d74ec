#include "probe/process-lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>

#include "base/fd-io.h"
#include "model/process.h"
#include "probe/proc-cmdline.h"

static ssize_t read_file(const char *proc_root, pid_t pid, const char *name, char *into,
                         size_t size)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%d/%s", proc_root, (int)pid, name) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    return fd_read_file(AT_FDCWD, path, into, size);
}

void process_lookup_command(const char *proc_root, pid_t pid, char *into, size_t size)
{
    char raw[COMMAND_MAX_BYTES + 4];
    ssize_t length = read_file(proc_root, pid, "cmdline", raw, sizeof(raw));

    into[0] = '\0';
    if (length > 0)
        proc_cmdline_parse(raw, (size_t)length, into, size);
}

bool process_lookup_is_gone(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

int process_lookup_stat(const char *proc_root, pid_t pid, struct proc_stat *ret)
{
    char bytes[1024];
    ssize_t length = read_file(proc_root, pid, "stat", bytes, sizeof(bytes));

    return length < 0 ? (int)length : proc_stat_parse(bytes, (size_t)length, ret);
}

static int read_status(const char *proc_root, pid_t pid, struct proc_status *ret)
{
    char bytes[4096];
    ssize_t length = read_file(proc_root, pid, "status", bytes, sizeof(bytes));

    if (length < 0)
        return (int)length;
    int r = proc_status_parse(bytes, (size_t)length, ret);
    return r == 0 && !int_is_known(ret->uid) ? -ENODATA : r;
}

/* The pid may be reused between two reads: the start time is read before and after. */
int process_lookup_status(const char *proc_root, pid_t pid, uint64_t *ret_start_ticks,
                          struct proc_status *ret)
{
    struct proc_stat before, after;
    struct proc_status status;

    int r = process_lookup_stat(proc_root, pid, &before);
    if (r == 0)
        r = read_status(proc_root, pid, &status);
    if (r == 0)
        r = process_lookup_stat(proc_root, pid, &after);
    if (r == 0 && before.start_ticks != after.start_ticks)
        r = -ESRCH;
    if (r < 0)
        return r;
    *ret_start_ticks = after.start_ticks;
    *ret = status;
    return 0;
}

int process_lookup_owner(const char *proc_root, pid_t pid, uint64_t *ret_start_ticks,
                         int64_t *ret_uid)
{
    struct proc_status status;

    int r = process_lookup_status(proc_root, pid, ret_start_ticks, &status);
    if (r == 0)
        *ret_uid = status.uid;
    return r;
}
