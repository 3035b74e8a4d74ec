#include "store/ballast.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Several times as much as one transaction of retention writes to the log. */
#define BALLAST_BYTES (1 << 20)
/* The ballast must not fill the disk: as much space as it takes must remain. */
#define ROOM_FACTOR 2

static int format_path(const char *database_path, char *into, size_t size)
{
    int length = snprintf(into, size, "%s-ballast", database_path);
    return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

void ballast_create(const char *database_path)
{
    char path[PATH_MAX];
    struct statvfs disk;
    struct stat st;

    if (format_path(database_path, path, sizeof(path)) < 0)
        return;
    if (lstat(path, &st) == 0 && st.st_size >= BALLAST_BYTES)
        return;
    _cleanup_close_ int fd =
        open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd >= 0 && fchmod(fd, 0600) == 0 && fstatvfs(fd, &disk) == 0 &&
        disk.f_bavail * disk.f_frsize >= (unsigned long)BALLAST_BYTES * ROOM_FACTOR &&
        posix_fallocate(fd, 0, BALLAST_BYTES) == 0)
        return;
    if (fd >= 0)
        unlink(path);
}

void ballast_delete(const char *database_path)
{
    char path[PATH_MAX];

    if (format_path(database_path, path, sizeof(path)) == 0)
        unlink(path);
}

/* One region of the shared memory and the first pages of the log fit in OPENING_BYTES. */
#define SHARED_PAGE_BYTES 4096
#define OPENING_BYTES     (64 * 1024)

int ballast_check_room(const char *database_path)
{
    struct statvfs disk;

    if (statvfs(database_path, &disk) < 0 || disk.f_frsize >= SHARED_PAGE_BYTES)
        return 0;
    return disk.f_bavail * disk.f_frsize >= OPENING_BYTES ? 0 : -ENOSPC;
}
