/* Where the database may live, settled before SQLite opens it.
 *
 * SQLite makes its side files (-wal, -shm, -journal) by name, beside the database. So the directory
 * must be one in which nobody else can plant a link under those names, and a local one: WAL needs
 * memory that all its users share, which no network filesystem gives. */
#pragma once

#include <stdbool.h>

/* The f_type of statfs() for the filesystem of a directory. 0 or a negative errno. */
typedef int filesystem_fn(int dir_fd, long *ret_type);

struct database_path_options {
    const char *path;
    bool create; /* make the file and its directories where they are missing */
    /* What stands in for a network filesystem; NULL: /var/tmp/sonde-UID. */
    const char *local_dir;
    filesystem_fn *filesystem; /* NULL: as it is */
};

struct database_path {
    char *path;       /* for SQLite */
    char *moved_from; /* the path that was asked for, if that is on a network; else NULL */
};

/* Why not, in one line that names the file, the cause and the fix. */
struct database_path_error {
    char text[512];
};

/* 0 if a database can be opened at ret->path: a regular file of this user's or root's, in a
 * directory that only they can write. Where it was missing it is empty and 0600 now, directories
 * that were missing are 0700, whatever the umask; what was there is left as it is.
 * Else a negative errno, with `error` filled: -ENOENT (missing, and not to be made), -EPERM (others
 * can write the directory, or the file is somebody else's), -ELOOP (a link that others may have
 * planted), -EINVAL (not a regular file), -EREMOTE (the local directory is on a network too) or
 * what a system call said. */
int database_path_prepare(const struct database_path_options *options, struct database_path *ret,
                          struct database_path_error *error);
void database_path_done(struct database_path *path);

#define _cleanup_database_path_ __attribute__((cleanup(database_path_done)))

/* Whether a filesystem is shared between machines. */
bool database_path_is_network(long f_type);
