#include "probe/last-pid.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/number.h"

int last_pid_parse(const char *bytes, size_t length, pid_t *ret)
{
    const char *cursor = bytes, *end = bytes + length;
    uint64_t pid;

    if (number_scan_uint(&cursor, end, &pid) < 0 || pid > INT_MAX || cursor == end ||
        *cursor != '\n')
        return -EBADMSG;
    *ret = (pid_t)pid;
    return 0;
}

int last_pid_open(int root_fd)
{
    int fd = openat(root_fd, "sys/kernel/ns_last_pid", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int last_pid_read(int fd, pid_t *ret)
{
    char bytes[16];

    ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
    return n < 0 ? -errno : last_pid_parse(bytes, (size_t)n, ret);
}
