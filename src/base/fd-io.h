/* Reading and writing whole files. Output paths follow one rule about symbolic links: a link in a
 * directory that other users can write is not followed. Functions return 0, a length or a
 * descriptor, or a negative errno. */
#pragma once

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads at most `capacity - 1` bytes from the start of an open file into `into`, and appends a NUL.
 * Stops after a short read: the kernel returns a generated file completely at the first read.
 * Returns the length. */
ssize_t fd_read_start(int fd, char *into, size_t capacity);

/* Opens `path` below `dir_fd`, reads it like fd_read_start(), and closes it. */
ssize_t fd_read_file(int dir_fd, const char *path, char *into, size_t capacity);

/* Opens the directory `path` below `dir_fd` for listing. Returns NULL and sets errno on failure. */
DIR *fd_open_directory(int dir_fd, const char *path);

static inline void closedirp(DIR **directory)
{
    if (*directory)
        closedir(*directory);
}

#define _cleanup_closedir_ __attribute__((cleanup(closedirp)))

/* Writes all bytes; waits if the descriptor is non-blocking and cannot accept more. */
int fd_write_all(int fd, const void *bytes, size_t length);

/* Opens `path` for writing with the additional `flags`; O_CREAT uses `mode`. Returns the
 * descriptor. A symbolic link in a directory that others can write is not followed (-ELOOP),
 * because another user may have chosen its target. A link in a directory that only we can write is
 * followed. Does not wait for a reader of a FIFO (-ENXIO). */
int fd_open_output(const char *path, int flags, mode_t mode);

/* Returns whether a user other than this one and root can create files, and so links, in the
 * directory: another user owns it, or its mode lets a group or everyone write (including a sticky
 * /tmp). A user's private group, which has the user's name and no other member, does not count. */
bool fd_others_can_write(int dir_fd);

/* A file relative to an open directory, so that no other user can replace a part of the path
 * between two calls. */
struct fd_location {
    int dir_fd;          /* O_PATH: the deepest existing directory of the path */
    char rest[PATH_MAX]; /* the missing directories, if any, then the file's name */
};

/* Locates `path`, following links by the rule of fd_open_output(), including a link at its end. The
 * file itself may be missing. Returns 0, -ELOOP (a link that is not followed), -EMLINK (too many
 * links), -EISDIR (the path ends in a slash) or another negative errno. The caller releases *ret
 * with fd_location_done(). */
int fd_locate(const char *path, struct fd_location *ret);

/* Returns whether directories of the path are missing. */
bool fd_location_lacks_dirs(const struct fd_location *location);

/* Creates the missing directories with mode 0700, regardless of the umask; `rest` is then only the
 * file's name. After a failure, fd_location_done() is the only valid call. */
int fd_location_make_dirs(struct fd_location *location);

void fd_location_done(struct fd_location *location);

#define _cleanup_fd_location_ __attribute__((cleanup(fd_location_done)))
