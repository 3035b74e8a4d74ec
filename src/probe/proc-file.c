#include "probe/proc-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/fd-io.h"

/* "4194304/task/4194304/status" is among the longest. */
#define PATH_SIZE 64

int proc_file_open(int root_fd, pid_t pid, const char *name, int flags)
{
    char path[PATH_SIZE];

    snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
    int fd = openat(root_fd, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

ssize_t proc_file_read(int root_fd, pid_t pid, const char *name, char *into, size_t capacity)
{
    _cleanup_close_ int fd = proc_file_open(root_fd, pid, name, O_RDONLY);
    return fd < 0 ? fd : fd_read_start(fd, into, capacity);
}
