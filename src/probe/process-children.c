#include "probe/process-children.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "probe/proc-file.h"

/* "4194304/task/4194304/children" */
#define PATH_SIZE 64
#define PAGE_SIZE 4096

int process_children_open(int root_fd, pid_t pid)
{
    char path[PATH_SIZE];

    snprintf(path, sizeof(path), "%d/task/%d/children", (int)pid, (int)pid);
    int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    if (errno != ENOENT)
        return -errno;
    snprintf(path, sizeof(path), "%d/task/%d", (int)pid, (int)pid);
    return faccessat(root_fd, path, F_OK, 0) == 0 ? -EOPNOTSUPP : -ESRCH;
}

/* The kernel returns at most a page per read and never a partial number; less than half a page is
 * the end of the list. */
static int read_list(int fd, proc_child_fn on_child, void *context)
{
    char bytes[PAGE_SIZE];
    off_t offset = 0;

    for (;;) {
        ssize_t n = pread(fd, bytes, sizeof(bytes), offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = proc_children_parse(bytes, (size_t)n, on_child, context);
        if (r < 0 || (size_t)n < sizeof(bytes) / 2)
            return r;
        offset += n;
    }
}

/* A thread that is gone has no children. The children of a hidden thread are hidden as well. */
static int read_thread(int task_fd, const char *tid, proc_child_fn on_child, void *context)
{
    char path[NAME_MAX + sizeof("/children")];

    snprintf(path, sizeof(path), "%s/children", tid);
    _cleanup_close_ int fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : read_list(fd, on_child, context);
    return proc_file_is_gone(r) || r == -EACCES || r == -EPERM ? 0 : r;
}

static int read_threads(int task_fd, const char *entries, size_t length, proc_child_fn on_child,
                        void *context)
{
    for (size_t at = 0; at < length;) {
        const struct dirent64 *entry = (const void *)(entries + at);
        if (entry->d_name[0] != '.') {
            int r = read_thread(task_fd, entry->d_name, on_child, context);
            if (r < 0)
                return r;
        }
        at += entry->d_reclen;
    }
    return 0;
}

/* Uses getdents64(), because opendir() allocates. */
static int read_all_threads(int root_fd, pid_t pid, proc_child_fn on_child, void *context)
{
    _Alignas(struct dirent64) char entries[PAGE_SIZE];
    char path[PATH_SIZE];

    snprintf(path, sizeof(path), "%d/task", (int)pid);
    _cleanup_close_ int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    for (;;) {
        ssize_t n = getdents64(fd, entries, sizeof(entries));
        if (n <= 0)
            return n < 0 && errno != ENOENT ? -errno : 0;
        int r = read_threads(fd, entries, (size_t)n, on_child, context);
        if (r < 0)
            return r;
    }
}

int process_children_read(int root_fd, pid_t pid, int64_t threads, int fd, proc_child_fn on_child,
                          void *context)
{
    if (threads > 1)
        return read_all_threads(root_fd, pid, on_child, context);
    if (fd >= 0)
        return read_list(fd, on_child, context);

    _cleanup_close_ int opened = process_children_open(root_fd, pid);
    return opened < 0 ? opened : read_list(opened, on_child, context);
}
