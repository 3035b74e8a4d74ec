#include "base/fd-io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

ssize_t fd_read_start(int fd, char *into, size_t capacity)
{
    size_t length = 0;

    while (length < capacity - 1) {
        ssize_t n = pread(fd, into + length, capacity - 1 - length, (off_t)length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        length += (size_t)n;
        /* A generated file that filled less than the buffer has no more; asking again would make
         * the kernel generate it again. */
        if (n == 0 || length < capacity - 1)
            break;
    }
    into[length] = '\0';
    return (ssize_t)length;
}

ssize_t fd_read_file(int dir_fd, const char *path, char *into, size_t capacity)
{
    _cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    return fd_read_start(fd, into, capacity);
}

/* A parent may have left a stream of ours non-blocking. */
static bool wait_until_writable(int fd)
{
    struct pollfd watched = {.fd = fd, .events = POLLOUT};
    return poll(&watched, 1, -1) > 0 || errno == EINTR;
}

int fd_write_all(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;

    while (length) {
        ssize_t n = write(fd, at, length);
        if (n < 0 && (errno == EINTR || (errno == EAGAIN && wait_until_writable(fd))))
            continue;
        if (n < 0)
            return -errno;
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

/* Whether someone other than this user and root could plant a link in the directory. */
static bool others_can_write(int dir_fd)
{
    struct stat st;

    if (fstat(dir_fd, &st) < 0)
        return true;
    return (st.st_mode & (S_IWGRP | S_IWOTH)) || (st.st_uid != 0 && st.st_uid != geteuid());
}

/* Opens one component of a path below `dir_fd`, with the rule about links. */
static int open_component(int dir_fd, const char *name, int flags, mode_t mode)
{
    int no_follow = others_can_write(dir_fd) ? O_NOFOLLOW : 0;
    int fd = openat(dir_fd, name, flags | no_follow | O_CLOEXEC, mode);
    return fd < 0 ? -errno : fd;
}

static int open_last(int dir_fd, const char *name, int flags, mode_t mode)
{
    _cleanup_close_ int fd = open_component(dir_fd, name, flags | O_WRONLY | O_NONBLOCK, mode);

    if (fd < 0)
        return TAKE_FD(fd);
    int set = fcntl(fd, F_GETFL);
    if (set < 0 || fcntl(fd, F_SETFL, set & ~O_NONBLOCK) < 0)
        return -errno;
    return TAKE_FD(fd);
}

int fd_open_output(const char *path, int flags, mode_t mode)
{
    char name[NAME_MAX + 1];
    const char *at = path;
    _cleanup_close_ int dir_fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return -errno;

    for (;;) {
        at += strspn(at, "/");
        size_t length = strcspn(at, "/");
        if (length == 0)
            return *path ? -EISDIR : -ENOENT;
        if (length > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, at, length);
        name[length] = '\0';
        at += length;
        if (!*at)
            return open_last(dir_fd, name, flags, mode);

        int next = open_component(dir_fd, name, O_PATH | O_DIRECTORY, 0);
        if (next < 0)
            return next;
        close_fd(dir_fd);
        dir_fd = next;
    }
}
