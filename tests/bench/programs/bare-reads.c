/* The minimum cost of a snapshot: reads the same files as sonde, but parses and keeps nothing. A
 * worker.
 *
 *   bare-reads kept BUDGET  files kept open while BUDGET descriptors last, else opened anew
 *   bare-reads anew         every file opened anew
 *   bare-reads list         only the listing of /proc
 *
 * Reads of a process its CPU clock, stat, statm and the size of its fd directory; of a kernel
 * thread the first two. The processes are listed once, before the measurement. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker.h"

#define FLAG_KERNEL_THREAD 0x00200000ul
#define MAX_PROCESSES      65536

struct process {
    int pid;
    clockid_t clock;
    bool is_kernel_thread;
    int stat_fd, statm_fd, dir_fd; /* -1: not kept */
};

static struct process processes[MAX_PROCESSES];
static size_t process_count;
static int budget;
static DIR *proc;

static int open_file(int pid, const char *name, int flags)
{
    char path[64];

    snprintf(path, sizeof(path), "%d/%s", pid, name);
    return openat(dirfd(proc), path, flags | O_CLOEXEC);
}

static void read_file(int kept_fd, int pid, const char *name)
{
    char bytes[4096];
    int fd = kept_fd >= 0 ? kept_fd : open_file(pid, name, O_RDONLY);

    pread(fd, bytes, sizeof(bytes), 0); /* fails if the process has ended */
    if (kept_fd < 0 && fd >= 0)
        close(fd);
}

static void stat_directory(const struct process *process)
{
    struct stat st;
    char path[64];

    if (process->dir_fd >= 0) {
        fstat(process->dir_fd, &st);
        return;
    }
    snprintf(path, sizeof(path), "%d/fd", process->pid);
    fstatat(dirfd(proc), path, &st, 0);
}

static size_t read_all(void *context)
{
    struct timespec ts;

    (void)context;
    for (size_t i = 0; i < process_count; i++) {
        const struct process *process = &processes[i];
        clock_gettime(process->clock, &ts);
        read_file(process->stat_fd, process->pid, "stat");
        if (process->is_kernel_thread)
            continue;
        read_file(process->statm_fd, process->pid, "statm");
        stat_directory(process);
    }
    return process_count;
}

static size_t list_all(void *context)
{
    size_t count = 0;

    (void)context;
    rewinddir(proc);
    for (struct dirent *entry; (entry = readdir(proc));)
        count += entry->d_name[0] >= '1' && entry->d_name[0] <= '9';
    return count;
}

static bool is_kernel_thread(int pid)
{
    char bytes[4096];
    int fd = open_file(pid, "stat", O_RDONLY);
    ssize_t length = pread(fd, bytes, sizeof(bytes) - 1, 0);
    unsigned long flags = 0;

    close(fd);
    if (length <= 0)
        return false;
    bytes[length] = '\0';
    char *after_name = strrchr(bytes, ')');
    if (after_name)
        sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags);
    return flags & FLAG_KERNEL_THREAD;
}

static int keep(int pid, const char *name, int flags)
{
    int fd = budget > 0 ? open_file(pid, name, flags) : -1;

    budget -= fd >= 0;
    return fd;
}

static void find_processes(void)
{
    rewinddir(proc);
    for (struct dirent *entry; (entry = readdir(proc)) && process_count < MAX_PROCESSES;) {
        int pid = atoi(entry->d_name);
        struct process process = {.pid = pid, .stat_fd = -1, .statm_fd = -1, .dir_fd = -1};
        if (pid <= 0 || clock_getcpuclockid(pid, &process.clock) != 0)
            continue;
        process.is_kernel_thread = is_kernel_thread(pid);
        process.stat_fd = keep(pid, "stat", O_RDONLY);
        if (!process.is_kernel_thread) {
            process.statm_fd = keep(pid, "statm", O_RDONLY);
            process.dir_fd = keep(pid, "fd", O_PATH | O_DIRECTORY);
        }
        processes[process_count++] = process;
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    proc = opendir("/proc");
    if (!proc) {
        perror("/proc");
        return 1;
    }
    if (strcmp(mode, "list") == 0)
        return worker_serve(list_all, NULL);
    if (strcmp(mode, "kept") == 0)
        budget = argc > 2 ? atoi(argv[2]) : 0;
    find_processes();
    return worker_serve(read_all, NULL);
}
