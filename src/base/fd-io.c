#include "base/fd-io.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
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
        /* A generated file that did not fill the buffer is complete; another read would make the
         * kernel generate it again. */
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

DIR *fd_open_directory(int dir_fd, const char *path)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);

    if (!directory)
        close_fd(fd);
    return directory;
}

/* Needed because sonde may inherit a non-blocking stdout or stderr. */
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

/* Longest chain of links at the end of a path. More than two are unusual. */
#define LINKS_MAX 8

/* Whether the file has an ACL. If so, the group bits of its mode are the ACL's mask and not the
 * rights of the group. */
static bool has_access_list(int fd)
{
    char path[sizeof("/proc/self/fd/") + 3 * sizeof(fd)];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* fgetxattr() rejects O_PATH */
    return getxattr(path, "system.posix_acl_access", NULL, 0) >= 0 ||
           (errno != ENODATA && errno != EOPNOTSUPP);
}

/* A private group has few members: one that does not fit into the buffer is not private. */
static bool is_private_group(uid_t uid, gid_t gid)
{
    char user_bytes[4096], group_bytes[4096];
    struct passwd user, *found_user;
    struct group group, *found_group;

    if (getpwuid_r(uid, &user, user_bytes, sizeof(user_bytes), &found_user) != 0 || !found_user ||
        getgrgid_r(gid, &group, group_bytes, sizeof(group_bytes), &found_group) != 0 ||
        !found_group)
        return false;
    if (user.pw_gid != gid || strcmp(user.pw_name, group.gr_name) != 0)
        return false;
    for (char **member = group.gr_mem; *member; member++)
        if (strcmp(*member, user.pw_name) != 0)
            return false;
    return true;
}

bool fd_others_can_write(int dir_fd)
{
    struct stat st;

    if (fstat(dir_fd, &st) < 0)
        return true;
    if ((st.st_mode & S_IWOTH) || (st.st_uid != 0 && st.st_uid != geteuid()))
        return true;
    if (!(st.st_mode & S_IWGRP))
        return false;
    /* Root's group is never private: containers run arbitrary users with it. */
    return st.st_uid == 0 || has_access_list(dir_fd) || !is_private_group(st.st_uid, st.st_gid);
}

static bool is_link(int dir_fd, const char *name)
{
    struct stat st;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* Opens one component of a path below `dir_fd`; follows a link only if the rule in fd-io.h permits
 * it. */
static int open_component(int dir_fd, const char *name, int flags, mode_t mode)
{
    int no_follow = fd_others_can_write(dir_fd) ? O_NOFOLLOW : 0;
    int fd = openat(dir_fd, name, flags | no_follow | O_CLOEXEC, mode);
    if (fd >= 0)
        return fd;

    int error = errno;
    /* O_DIRECTORY with O_NOFOLLOW reports ENOTDIR for a link. */
    if (error == ENOTDIR && no_follow && is_link(dir_fd, name))
        error = ELOOP;
    else if (error == ELOOP && !no_follow)
        error = EMLINK;
    return -error;
}

/* Copies the first component of `path`. */
static int copy_first_component(const char *path, char ret_name[static NAME_MAX + 1])
{
    size_t length = strcspn(path, "/");

    if (length > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(ret_name, path, length);
    ret_name[length] = '\0';
    return 0;
}

/* Opens the directory in which the path begins. */
static int open_first_directory(const char *path)
{
    if (!*path)
        return -ENOENT;
    int fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Opens directory after directory until *path is only the last component. After a failure,
 * *dir_fd and *path are those of the component that failed. */
static int descend(int *dir_fd, const char **path)
{
    for (;;) {
        char name[NAME_MAX + 1];

        *path += strspn(*path, "/");
        if (!**path)
            return -EISDIR;
        int r = copy_first_component(*path, name);
        if (r < 0)
            return r;
        if (!(*path)[strlen(name)])
            return 0;

        int next = open_component(*dir_fd, name, O_PATH | O_DIRECTORY, 0);
        if (next < 0)
            return next;
        close_fd(*dir_fd);
        *dir_fd = next;
        *path += strlen(name);
    }
}

/* Opens the file itself. O_NONBLOCK applies only to the open: it must not wait on a FIFO. */
static int open_final(int dir_fd, const char *name, int flags, mode_t mode)
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
    _cleanup_close_ int dir_fd = open_first_directory(path);
    if (dir_fd < 0)
        return TAKE_FD(dir_fd);

    int r = descend(&dir_fd, &path);
    return r < 0 ? r : open_final(dir_fd, path, flags, mode);
}

/* Returns 1 and the target if `name` is a link that may be followed, 0 if it is no link. */
static int read_final_link(int dir_fd, const char *name, char ret_target[static PATH_MAX])
{
    ssize_t length = readlinkat(dir_fd, name, ret_target, PATH_MAX);

    if (length < 0)
        return errno == EINVAL || errno == ENOENT ? 0 : -errno;
    if (length == PATH_MAX)
        return -ENAMETOOLONG;
    ret_target[length] = '\0';
    return fd_others_can_write(dir_fd) ? -ELOOP : 1;
}

int fd_locate(const char *path, struct fd_location *ret)
{
    char here[PATH_MAX], target[PATH_MAX];
    _cleanup_close_ int dir_fd = open_first_directory(path);

    if (dir_fd < 0)
        return TAKE_FD(dir_fd);
    for (unsigned links = 0; links <= LINKS_MAX; links++) {
        const char *at = path;
        if (path[strlen(path) - 1] == '/')
            return -EISDIR;
        int r = descend(&dir_fd, &at);
        if (r == 0)
            r = read_final_link(dir_fd, at, target);
        if (r < 0 && r != -ENOENT)
            return r;
        if (r <= 0) {
            if (strlen(at) >= sizeof(ret->rest))
                return -ENAMETOOLONG;
            ret->dir_fd = TAKE_FD(dir_fd);
            memcpy(ret->rest, at, strlen(at) + 1);
            return 0;
        }

        path = strcpy(here, target);
        if (*path == '/') {
            close_fd(dir_fd);
            dir_fd = open_first_directory(path);
            if (dir_fd < 0)
                return TAKE_FD(dir_fd);
        }
    }
    return -EMLINK;
}

bool fd_location_lacks_dirs(const struct fd_location *location)
{
    return strchr(location->rest, '/') != NULL;
}

/* Succeeds if the directory exists: another process may have just made it. */
static int make_dir(int dir_fd, const char *path)
{
    char name[NAME_MAX + 1];
    struct stat st;

    int r = copy_first_component(path, name);
    if (r < 0)
        return r;
    if (mkdirat(dir_fd, name, 0700) < 0)
        return errno == EEXIST ? 0 : -errno;
    /* An unusual umask may have removed the owner's bits. */
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if ((st.st_mode & 0777) != 0700 && fchmodat(dir_fd, name, 0700, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

int fd_location_make_dirs(struct fd_location *location)
{
    const char *at = location->rest, *made = NULL;
    int r;

    while ((r = descend(&location->dir_fd, &at)) == -ENOENT) {
        if (at == made) /* it exists, but is a dangling link */
            return -ENOENT;
        r = make_dir(location->dir_fd, at);
        if (r < 0)
            return r;
        made = at;
    }
    if (r < 0)
        return r;
    memmove(location->rest, at, strlen(at) + 1);
    return 0;
}

void fd_location_done(struct fd_location *location)
{
    location->dir_fd = close_fd(location->dir_fd);
}
