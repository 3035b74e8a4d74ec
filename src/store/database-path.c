#include "store/database-path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "base/text.h"
#include "base/utf8.h"

/* ---- filesystems ---- */

bool database_path_is_network(long f_type)
{
    /* From linux/magic.h and, for filesystems outside the kernel, coreutils' stat. FUSE is missing:
     * its number is the same for sshfs and for a local disk. */
    static const uint32_t network[] = {
        0x00006969, /* NFS */
        0x0000517B, /* SMB */
        0xFF534D42, /* CIFS */
        0xFE534D42, /* SMB2 */
        0x0000564C, /* NCP */
        0x5346414F, /* AFS (OpenAFS) */
        0x6B414653, /* AFS (the kernel's) */
        0x73757245, /* Coda */
        0x00C36400, /* Ceph */
        0x0BD00BD0, /* Lustre */
        0x47504653, /* GPFS, Spectrum Scale */
        0x19830326, /* BeeGFS */
        0x01021997, /* 9p */
        0xAAD7AAEA, /* PanFS */
        0x20030528, /* OrangeFS, PVFS2 */
        0x7461636F, /* OCFS2 */
        0x01161970, /* GFS, GFS2 */
        0xBEEFDEAD, /* StorNext */
        0x013111A8, /* IBRIX */
        0x61636673, /* ACFS */
        0x786F4256, /* VirtualBox shared folders */
        0xBACBACBC, /* VMware shared folders */
        0x7C7C6673, /* Parallels shared folders */
    };

    for (size_t i = 0; i < ARRAY_SIZE(network); i++)
        if ((uint32_t)f_type == network[i]) /* a long of 32 bits makes some of them negative */
            return true;
    return false;
}

static int actual_filesystem(int dir_fd, long *ret_type)
{
    struct statfs fs;

    if (fstatfs(dir_fd, &fs) < 0)
        return -errno;
    *ret_type = (long)fs.f_type;
    return 0;
}

static int is_on_network(const struct database_path_options *options, int dir_fd)
{
    filesystem_fn *filesystem = options->filesystem ? options->filesystem : actual_filesystem;
    long type;

    int r = filesystem(dir_fd, &type);
    return r < 0 ? r : database_path_is_network(type);
}

/* ---- error messages ---- */

/* A path without control characters, shortened so that the message fits. */
struct shown_path {
    char text[192];
};

static const char *show_path(struct shown_path *buffer, const char *path)
{
    _cleanup_text_ struct text visible = {0};

    text_append_visible(&visible, path, strlen(path), 150);
    utf8_clean(buffer->text, sizeof(buffer->text), text_string(&visible), visible.length);
    return buffer->text;
}

/* The path of an open directory, without links. */
static const char *show_dir(struct shown_path *buffer, int dir_fd)
{
    char link[sizeof("/proc/self/fd/") + 3 * sizeof(dir_fd)], name[PATH_MAX];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
    ssize_t length = readlink(link, name, sizeof(name) - 1);
    name[MAX(length, 0)] = '\0';
    return show_path(buffer, length > 0 ? name : "its directory");
}

static int reject(struct database_path_error *error, int code, const char *format, ...)
    _printf_(3, 4);

static int reject(struct database_path_error *error, int code, const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    utf8_clean(error->text, sizeof(error->text), text, strlen(text)); /* cuts between characters */
    return code;
}

/* For the error of a system call on the path. */
static int reject_path(struct database_path_error *error, int code, const char *path)
{
    struct shown_path shown;

    switch (code) {
    case -ELOOP:
        return reject(error, code,
                      "%s: leads through a symbolic link in a directory that others can write; "
                      "name the target itself",
                      show_path(&shown, path));
    case -EMLINK:
        return reject(error, code,
                      "%s: leads through too many symbolic links; name the target itself",
                      show_path(&shown, path));
    case -EISDIR:
        return reject(error, code, "%s: names a directory; add a file name, such as monitor.db",
                      show_path(&shown, path));
    default:
        return reject(error, code,
                      "%s: %s; name another path with profiler.storage_path or --state-dir",
                      show_path(&shown, path), strerror(-code));
    }
}

static int reject_missing(struct database_path_error *error, const char *path)
{
    struct shown_path shown;

    return reject(error, -ENOENT,
                  "%s: there is no database; run 'sonde run' first, or name another path with "
                  "profiler.storage_path or --state-dir",
                  show_path(&shown, path));
}

/* ---- the file ---- */

/* No other user can interfere: no other user can write the directory. */
static int create_file(const struct fd_location *where)
{
    _cleanup_close_ int fd =
        openat(where->dir_fd, where->rest,
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno == EEXIST ? 0 : -errno;  /* another sonde has created it */
    return fchmod(fd, 0600) < 0 ? -errno : 0; /* the umask may have removed bits */
}

static int check_file(const struct fd_location *where, const char *path,
                      struct database_path_error *error)
{
    struct shown_path shown;
    struct stat st;

    if (fstatat(where->dir_fd, where->rest, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? reject_missing(error, path) : reject_path(error, -errno, path);
    if (!S_ISREG(st.st_mode))
        return reject(error, -EINVAL,
                      "%s: is not a regular file; move it away, or name another path with "
                      "profiler.storage_path or --state-dir",
                      show_path(&shown, path));
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return reject(error, -EPERM,
                      "%s: belongs to user %u, who could change it at any time; move it away, or "
                      "name another path with profiler.storage_path or --state-dir",
                      show_path(&shown, path), (unsigned)st.st_uid);
    return 0;
}

static int check_dir(const struct fd_location *where, const char *path,
                     struct database_path_error *error)
{
    struct shown_path shown, shown_dir;

    if (!fd_others_can_write(where->dir_fd))
        return 0;
    return reject(error, -EPERM,
                  "%s: others can write the directory %s and could plant links there; chmod go-w "
                  "it if it is yours, else name a directory of your own with "
                  "profiler.storage_path or --state-dir",
                  show_path(&shown, path), show_dir(&shown_dir, where->dir_fd));
}

/* Creates what is missing, if it may, and checks the directory and the file. */
static int prepare_file(struct fd_location *where, const char *path, bool create,
                        struct database_path_error *error)
{
    if (!create && fd_location_lacks_dirs(where))
        return reject_missing(error, path);
    int r = create ? fd_location_make_dirs(where) : 0;
    if (r < 0)
        return reject_path(error, r, path);

    r = check_dir(where, path, error);
    if (r < 0)
        return r;
    r = create ? create_file(where) : 0;
    if (r < 0)
        return reject_path(error, r, path);
    return check_file(where, path, error);
}

/* ---- the local directory ---- */

static int format_local_path(const struct database_path_options *options, char **ret)
{
    const char *slash = strrchr(options->path, '/');
    const char *name = slash ? slash + 1 : options->path;
    int length = options->local_dir
                     ? asprintf(ret, "%s/%s", options->local_dir, name)
                     : asprintf(ret, "/var/tmp/sonde-%u/%s", (unsigned)geteuid(), name);

    if (length >= 0)
        return 0;
    *ret = NULL;
    return -ENOMEM;
}

/* Its name is predictable, so that another user may have created it. */
static int check_local_dir(int dir_fd, const char *asked_for, struct database_path_error *error)
{
    struct shown_path shown, shown_dir;
    struct stat st;

    if (fstat(dir_fd, &st) < 0)
        return reject_path(error, -errno, asked_for);
    if (st.st_uid == geteuid() && !(st.st_mode & 0077))
        return 0;
    return reject(error, -EPERM,
                  "%s: is on a network filesystem, and %s, which would replace it, is not private "
                  "to you; run chmod 700 on it or remove it, or name a local directory with "
                  "profiler.storage_path or --state-dir",
                  show_path(&shown, asked_for), show_dir(&shown_dir, dir_fd));
}

static int prepare_local(const struct database_path_options *options, struct database_path *ret,
                         struct database_path_error *error)
{
    _cleanup_fd_location_ struct fd_location where = {.dir_fd = -1};
    _cleanup_free_ char *path = NULL, *moved_from = strdup(options->path);
    struct shown_path shown;

    int r = moved_from ? format_local_path(options, &path) : -ENOMEM;
    if (r == 0)
        r = fd_locate(path, &where);
    if (r == 0 && options->create)
        r = fd_location_make_dirs(&where);
    if (r < 0)
        return reject_path(error, r, path ? path : options->path);
    if (fd_location_lacks_dirs(&where))
        return reject_missing(error, path);

    r = check_local_dir(where.dir_fd, options->path, error);
    if (r < 0)
        return r;
    r = is_on_network(options, where.dir_fd);
    if (r != 0)
        return reject(
            error, r < 0 ? r : -EREMOTE,
            "%s: is on a network filesystem, and so is the directory that would replace it; name "
            "a local directory with profiler.storage_path or --state-dir",
            show_path(&shown, options->path));
    r = prepare_file(&where, path, options->create, error);
    if (r < 0)
        return r;
    *ret = (struct database_path){.path = TAKE_PTR(path), .moved_from = TAKE_PTR(moved_from)};
    return 0;
}

/* ---- the directories above ---- */

/* In a user namespace, files of users that are not mapped, such as root, appear to belong to this
 * user. */
#define OVERFLOW_UID 65534

static bool maps_all_users(void)
{
    char map[64];
    unsigned long inside, outside, count;

    return fd_read_file(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map)) <= 0 ||
           sscanf(map, "%lu %lu %lu", &inside, &outside, &count) != 3 || count >= OVERFLOW_UID;
}

/* Whether another user could replace a directory below this one. In a sticky directory (/tmp) only
 * owners can rename; the caller checks the owner of each directory below. */
static bool others_can_rename_in(int dir_fd)
{
    struct stat st;

    if (!fd_others_can_write(dir_fd))
        return false;
    if (fstat(dir_fd, &st) < 0)
        return true;
    bool is_trusted = st.st_uid == 0 || st.st_uid == geteuid() ||
                      (st.st_uid == OVERFLOW_UID && !maps_all_users());
    return !is_trusted || ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX));
}

/* SQLite opens its files by path repeatedly: no other user must be able to redirect that path in
 * the meantime. `path` contains no links. */
static int check_parents(const char *path, struct database_path_error *error)
{
    _cleanup_free_ char *parent = strdup(path);
    struct shown_path shown;

    if (!parent)
        return reject_path(error, -ENOMEM, path);
    for (char *slash = strrchr(parent, '/'); slash; slash = strrchr(parent, '/')) {
        slash[slash == parent] = '\0';
        _cleanup_close_ int fd = open(parent, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return reject_path(error, -errno, parent);
        if (others_can_rename_in(fd))
            return reject(
                error, -EPERM,
                "%s: others can change it, and so replace the directories below; name another path "
                "with profiler.storage_path or --state-dir",
                show_path(&shown, parent));
        if (slash == parent)
            break;
    }
    return 0;
}

int database_path_prepare(const struct database_path_options *options, struct database_path *ret,
                          struct database_path_error *error)
{
    _cleanup_fd_location_ struct fd_location where = {.dir_fd = -1};

    int r = fd_locate(options->path, &where);
    if (r < 0)
        return reject_path(error, r, options->path);
    /* Checked before anything is created: a full or read-only network home must not matter. */
    r = is_on_network(options, where.dir_fd);
    if (r < 0)
        return reject_path(error, r, options->path);
    if (r > 0)
        return prepare_local(options, ret, error);

    r = prepare_file(&where, options->path, options->create, error);
    if (r < 0)
        return r;
    /* Without links, so that every path to the database leads to the same files beside it. */
    _cleanup_free_ char *path = realpath(options->path, NULL);
    if (!path)
        return reject_path(error, -errno, options->path);
    r = check_parents(path, error);
    if (r == 0)
        *ret = (struct database_path){.path = TAKE_PTR(path)};
    return r;
}

void database_path_done(struct database_path *path)
{
    free(path->path);
    free(path->moved_from);
    *path = (struct database_path){.path = NULL};
}
