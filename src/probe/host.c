#include "probe/host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd-io.h"
#include "base/utf8.h"
#include "model/field.h"
#include "probe/sys-files.h"

static ssize_t read_file(const char *proc_root, const char *name, char *into, size_t size)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", proc_root, name) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    return fd_read_file(AT_FDCWD, path, into, size);
}

char *host_read_name(struct arena *arena)
{
    char name[256] = "";

    if (gethostname(name, sizeof(name) - 1) < 0)
        strcpy(name, "localhost");
    return utf8_clean_copy(arena, name);
}

char *host_read_boot_id(const char *proc_root, struct arena *arena)
{
    char id[64] = "";
    ssize_t length = read_file(proc_root, "sys/kernel/random/boot_id", id, sizeof(id));

    id[length > 0 ? strcspn(id, "\n") : 0] = '\0';
    return utf8_clean_copy(arena, id);
}

int64_t host_read_oom_kills(const char *proc_root)
{
    char bytes[16384];
    int64_t kills = INT_UNKNOWN;
    ssize_t length = read_file(proc_root, "vmstat", bytes, sizeof(bytes));

    if (length > 0)
        vmstat_parse_oom_kills(bytes, (size_t)length, &kills);
    return kills;
}

bool host_counts_io(const char *proc_root)
{
    char bytes[64];

    return read_file(proc_root, "self/io", bytes, sizeof(bytes)) > 0;
}
