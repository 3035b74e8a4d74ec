/* Reading and writing whole files, and the rule about links on the way to them: one in a directory
 * that others can write is not followed. Everything returns 0 or a length, or a negative errno. */
#pragma once

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads from the start of an open file into `into`, at most `capacity - 1` bytes, and ends it with
 * a NUL. One pread for the kernel's generated files, which are made whole at the first read. */
ssize_t fd_read_start(int fd, char *into, size_t capacity);

/* The same for `path` below `dir_fd`, opened and closed here. */
ssize_t fd_read_file(int dir_fd, const char *path, char *into, size_t capacity);

/* The directory `path` below `dir_fd`, to be listed; NULL, with errno, if it cannot be. */
DIR *fd_open_directory(int dir_fd, const char *path);

static inline void closedirp(DIR **directory)
{
    if (*directory)
        closedir(*directory);
}

#define _cleanup_closedir_ __attribute__((cleanup(closedirp)))

int fd_write_all(int fd, const void *bytes, size_t length);

/* Opens `path` for writing, made with `mode` where it is missing. A symbolic link in a directory
 * that others can write is not followed (-ELOOP): whoever planted it chose the target. (One in a
 * directory of our own is, wherever it leads: it was put there by us.) A pipe that
 * nobody reads is not waited for (-ENXIO). */
int fd_open_output(const char *path, int flags, mode_t mode);

/* Whether someone other than this user and root can put files into the directory, and so plant a
 * link there: it is somebody else's, or its mode lets a group or everyone write (a sticky /tmp
 * too). A user's private group, which has the user's name and nobody else in it, does not count. */
bool fd_others_can_write(int dir_fd);

/* A file by the directory that it is in, or will be, so that nobody can exchange anything on the
 * way to it between two calls. */
struct fd_location {
    int dir_fd;          /* O_PATH: the deepest directory on the way that is there */
    char rest[PATH_MAX]; /* the file's name; before it the directories that are missing */
};

/* Finds `path`, following links by the rule of fd_open_output(), one at its end too. 0, -ELOOP
 * (a link that is not followed, or too many), -EISDIR (it ends in a slash) or another negative
 * errno; the file itself may be missing. */
int fd_locate(const char *path, struct fd_location *ret);

bool fd_location_lacks_dirs(const struct fd_location *location);

/* Makes the directories that are missing, 0700 whatever the umask, so that `rest` is the file's
 * name alone. After a failure the location is only good for fd_location_done(). */
int fd_location_make_dirs(struct fd_location *location);

void fd_location_done(struct fd_location *location);

#define _cleanup_fd_location_ __attribute__((cleanup(fd_location_done)))
