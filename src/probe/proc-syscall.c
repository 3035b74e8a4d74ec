#include "probe/proc-syscall.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/number.h"

#define RUNNING "running"

int proc_syscall_parse(const char *bytes, size_t length, struct thread_call *ret)
{
    const char *at = bytes, *end = bytes + length;
    int64_t number;

    if (length >= strlen(RUNNING) && memcmp(bytes, RUNNING, strlen(RUNNING)) == 0) {
        ret->call = SYSCALL_NONE;
        ret->is_on_cpu = true;
        return 0;
    }
    if (number_scan_int(&at, end, &number) < 0 || (at < end && *at != ' ' && *at != '\n'))
        return -EBADMSG;
    ret->is_on_cpu = false;
    if (number < 0)
        ret->call = SYSCALL_NONE;
    else
        ret->call = number < SYSCALL_OTHER ? (unsigned)number : SYSCALL_OTHER;
    return 0;
}

static int read_call(int task_fd, const char *name, struct thread_call *call)
{
    char path[64], content[256];

    snprintf(path, sizeof(path), "%.20s/syscall", name);
    ssize_t n = fd_read_file(task_fd, path, content, sizeof(content));
    return n < 0 ? (int)n : proc_syscall_parse(content, (size_t)n, call);
}

/* Returns 1 if at least one thread was read, 0 if there was none, or a negative errno. */
static int sample_process(int root_fd, pid_t pid, thread_call_fn on_thread, void *context)
{
    struct thread_call call = {.pid = pid};
    char path[32];
    int result = 0, seen = 0;
    const struct dirent *entry;

    snprintf(path, sizeof(path), "%d/task", (int)pid);
    int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* gone */
    DIR *tasks = fdopendir(fd);
    if (!tasks) {
        close_fd(fd);
        return -ENOMEM;
    }
    while (seen < PROC_SYSCALL_THREADS_MAX && (entry = readdir(tasks))) {
        if (entry->d_name[0] == '.')
            continue;
        seen++;
        int r = read_call(fd, entry->d_name, &call);
        if (r == 0) {
            on_thread(context, &call);
            result = 1;
        } else if (r == -EACCES || r == -EPERM) {
            result = result ? result : -EACCES;
            break; /* the other threads belong to the same user */
        }
    }
    closedir(tasks);
    return result;
}

int proc_syscall_sample(int root_fd, const pid_t *pids, size_t count, thread_call_fn on_thread,
                        void *context)
{
    bool has_read = false;
    int error = 0;

    for (size_t i = 0; i < count; i++) {
        int r = sample_process(root_fd, pids[i], on_thread, context);
        has_read |= r > 0;
        if (r < 0)
            error = r;
    }
    if (has_read || !count)
        return 0;
    bool is_supported = faccessat(root_fd, "self/syscall", F_OK, 0) == 0;
    return error < 0 || is_supported ? error : -EOPNOTSUPP;
}
