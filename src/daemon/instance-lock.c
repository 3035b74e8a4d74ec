#include "daemon/instance-lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/number.h"

static pid_t read_holder(const char *path)
{
    char text[32];
    int64_t pid;

    if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return 0;
    text[strcspn(text, "\n")] = '\0';
    return number_parse_int(text, &pid) == 0 && pid > 0 ? (pid_t)pid : 0;
}

int instance_lock_take(const char *path, int *ret_fd, pid_t *ret_holder)
{
    _cleanup_close_ int fd = fd_open_output(path, O_CREAT, 0600);
    char text[32];

    if (fd < 0)
        return fd;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int error = -errno;
        *ret_holder = read_holder(path);
        return error;
    }
    int length = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0)
        return -errno;
    int r = fd_write_all(fd, text, (size_t)length);
    if (r < 0)
        return r;
    *ret_fd = TAKE_FD(fd);
    return 0;
}
