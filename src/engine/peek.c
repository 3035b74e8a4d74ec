#include "engine/peek.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/fd-io.h"
#include "model/process.h"
#include "probe/proc-cmdline.h"

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

int peek_stat(pid_t pid, struct proc_stat *ret)
{
    char bytes[1024];
    ssize_t length = read_file(pid, "stat", bytes, sizeof(bytes));

    return length < 0 ? (int)length : proc_stat_parse(bytes, (size_t)length, ret);
}
