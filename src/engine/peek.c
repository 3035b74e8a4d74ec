#include "engine/peek.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "base/fd-io.h"
#include "model/process.h"
#include "probe/proc-cmdline.h"
#include "probe/sys-files.h"

static ssize_t read_file(pid_t pid, const char *name, char *into, size_t size)
{
    char path[48];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return fd_read_file(AT_FDCWD, path, into, size);
}

void peek_command(pid_t pid, char *into, size_t size)
{
    char raw[COMMAND_MAX_BYTES + 4];
    ssize_t length = read_file(pid, "cmdline", raw, sizeof(raw));

    into[0] = '\0';
    if (length > 0)
        proc_cmdline_parse(raw, (size_t)length, into, size);
}

bool peek_is_gone(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

int peek_stat(pid_t pid, struct proc_stat *ret)
{
    char bytes[1024];
    ssize_t length = read_file(pid, "stat", bytes, sizeof(bytes));

    return length < 0 ? (int)length : proc_stat_parse(bytes, (size_t)length, ret);
}

static int read_status(pid_t pid, struct proc_status *ret)
{
    char bytes[4096];
    ssize_t length = read_file(pid, "status", bytes, sizeof(bytes));

    if (length < 0)
        return (int)length;
    int r = proc_status_parse(bytes, (size_t)length, ret);
    return r == 0 && !int_is_known(ret->uid) ? -ENODATA : r;
}

int peek_status(pid_t pid, uint64_t *ret_start_ticks, struct proc_status *ret)
{
    struct proc_stat before, after;
    struct proc_status status;

    int r = peek_stat(pid, &before);
    if (r == 0)
        r = read_status(pid, &status);
    if (r == 0)
        r = peek_stat(pid, &after);
    if (r == 0 && before.start_ticks != after.start_ticks)
        r = -ESRCH;
    if (r < 0)
        return r;
    *ret_start_ticks = after.start_ticks;
    *ret = status;
    return 0;
}

int peek_owner(pid_t pid, uint64_t *ret_start_ticks, int64_t *ret_uid)
{
    struct proc_status status;

    int r = peek_status(pid, ret_start_ticks, &status);
    if (r == 0)
        *ret_uid = status.uid;
    return r;
}

int64_t peek_oom_kills(void)
{
    char bytes[16384];
    int64_t kills = INT_UNKNOWN;
    ssize_t length = fd_read_file(AT_FDCWD, "/proc/vmstat", bytes, sizeof(bytes));

    if (length > 0)
        vmstat_parse_oom_kills(bytes, (size_t)length, &kills);
    return kills;
}
