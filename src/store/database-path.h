/* Checks and prepares the path of the database before SQLite opens it.
 *
 * SQLite creates its files (-wal, -shm, -journal) by name beside the database. The directory must
 * therefore be one in which no other user can create links with these names. It must also be on a
 * local filesystem: a write-ahead log needs shared memory, which network filesystems do not offer.
 */
#pragma once

#include <stdbool.h>

/* Reads the f_type of statfs() of a directory. Returns 0 or a negative errno. */
typedef int filesystem_fn(int dir_fd, long *ret_type);

struct database_path_options {
    const char *path;
    bool create; /* create the file and its directories if they are missing */
    /* Used instead of a network filesystem; NULL: /var/tmp/sonde-UID. */
    const char *local_dir;
    filesystem_fn *filesystem; /* for tests; NULL: fstatfs() */
};

struct database_path {
    char *path;       /* to open */
    char *moved_from; /* options->path if that is on a network filesystem; else NULL */
};

/* One line that names the file, the cause and the fix. */
struct database_path_error {
    char text[512];
};

/* Returns 0 if a database can be opened at ret->path: a regular file that belongs to this user or
 * root, in a directory that only they can write. If options->create is set, creates a missing file
 * with mode 0600 and missing directories with mode 0700, regardless of the umask. Existing files
 * and directories are not changed. The caller frees `ret` with database_path_done().
 *
 * Otherwise returns a negative errno and sets `error`: -ENOENT (missing, and not to be created),
 * -EPERM (other users can write the directory, or own the file), -ELOOP (a link that another user
 * may have created), -EMLINK (too many links), -EINVAL (not a regular file), -EREMOTE (the local
 * directory is on a network, too) or the errno of a system call. */
int database_path_prepare(const struct database_path_options *options, struct database_path *ret,
                          struct database_path_error *error);
void database_path_done(struct database_path *path);

#define _cleanup_database_path_ __attribute__((cleanup(database_path_done)))

/* Returns whether a filesystem type is one that machines share over a network. */
bool database_path_is_network(long f_type);
