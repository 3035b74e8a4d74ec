#include "probe/process-files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/number.h"
#include "probe/proc-file.h"
#include "probe/proc-io.h"
#include "probe/proc-limits.h"
#include "probe/proc-statm.h"
#include "probe/proc-status.h"

/* For "task/4194304/statm", and with the pid before it. */
#define NAME_SIZE 32
#define PATH_SIZE 64
/* stat is at most a few hundred bytes, status about 1.5 KB, limits 1.3 KB. */
#define FILE_SIZE 4096
/* User and limits can change without an exec (a server that drops its rights, or raises its limit),
 * so they are read again after this many readings. */
#define IDENTITY_REFRESH 64

/* Reading a clock takes half a microsecond. If two readings are further apart, sonde was preempted
 * in between. */
#define CLOCKS_APART_NS (50 * NS_PER_USEC)

static const char *const file_names[PROCESS_FILE_COUNT] = {
    [FILE_STAT] = "stat",     [FILE_STATM] = "statm", [FILE_FD_DIRECTORY] = "fd",
    [FILE_STATUS] = "status", [FILE_IO] = "io",
};

/* From this number of descriptors on, the limit is read too. */
#define MANY_FDS 32

/* Threads of a process whose I/O is read, at 3 µs each. */
#define IO_THREADS_MAX 64

/* Returns whether the tree is that of our own pid namespace: its `self` must link to this process.
 */
static bool tree_is_live(int root_fd)
{
    char target[32];
    int64_t pid;
    ssize_t length = readlinkat(root_fd, "self", target, sizeof(target) - 1);

    if (length <= 0)
        return false;
    target[length] = '\0';
    return number_parse_int(target, &pid) == 0 && pid == getpid();
}

static bool fd_size_counts(int root_fd)
{
    struct stat st;

    /* sonde has open descriptors, so a kernel that counts them reports more than 0. */
    return fstatat(root_fd, "self/fd", &st, 0) == 0 && st.st_size > 0;
}

void proc_tree_init(struct proc_tree *tree, int root_fd, unsigned descriptor_budget)
{
    bool is_live = tree_is_live(root_fd);

    *tree = (struct proc_tree){
        .root_fd = root_fd,
        .is_live = is_live,
        .fd_size_counts = is_live && fd_size_counts(root_fd),
        .budget = descriptor_budget,
        .ns_per_tick = NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK),
        .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
    };
}

struct process_files *process_files_new(pid_t pid)
{
    struct process_files *files = calloc(1, sizeof(*files));
    if (!files)
        return NULL;

    files->pid = pid;
    files->uid = files->fd_limit = INT_UNKNOWN;
    for (int i = 0; i < PROCESS_FILE_COUNT; i++)
        files->fds[i] = -1;
    if (clock_getcpuclockid(pid, &files->cpu_clock) != 0)
        files->cpu_clock = CLOCK_REALTIME; /* means none */
    return files;
}

void process_files_release(struct proc_tree *tree, struct process_files *files)
{
    for (int i = 0; i < PROCESS_FILE_COUNT; i++)
        if (files->fds[i] >= 0) {
            files->fds[i] = close_fd(files->fds[i]);
            tree->kept--;
        }
}

void process_files_free(struct proc_tree *tree, struct process_files *files)
{
    if (!files)
        return;
    process_files_release(tree, files);
    process_command_done(&files->command);
    free(files);
}

/* Returns the kept descriptor of a file, opening it if the budget permits; otherwise -ENFILE. */
static int kept_fd(struct proc_tree *tree, struct process_files *files, enum process_file file)
{
    if (files->fds[file] >= 0)
        return files->fds[file];
    if (tree->kept >= tree->budget)
        return -ENFILE;

    int flags = file == FILE_FD_DIRECTORY ? O_PATH | O_DIRECTORY : O_RDONLY;
    int fd = proc_file_open(tree->root_fd, files->pid, file_names[file], flags);
    if (fd >= 0) {
        files->fds[file] = fd;
        tree->kept++;
    }
    return fd;
}

static ssize_t read_file(struct proc_tree *tree, struct process_files *files,
                         enum process_file file, char *into, size_t size)
{
    int fd = kept_fd(tree, files, file);

    if (fd >= 0)
        return fd_read_start(fd, into, size);
    /* No room for another kept descriptor, by our budget or by the kernel's limit. */
    if (fd == -ENFILE || fd == -EMFILE)
        return proc_file_read(tree->root_fd, files->pid, file_names[file], into, size);
    return fd;
}

static int to_esrch(ssize_t error)
{
    return error == -ENOENT || error == -ESRCH || error == -ENOTDIR ? -ESRCH : (int)error;
}

static int read_stat(struct proc_tree *tree, struct process_files *files, struct proc_stat *ret)
{
    char bytes[FILE_SIZE];
    ssize_t length = read_file(tree, files, FILE_STAT, bytes, sizeof(bytes));

    if (length < 0)
        return to_esrch(length);
    /* The file of an exiting process may be empty. */
    if (length == 0)
        return -ESRCH;
    return proc_stat_parse(bytes, (size_t)length, ret);
}

static int64_t ticks_to_ns(const struct proc_tree *tree, uint64_t ticks)
{
    uint64_t ns;

    if (__builtin_mul_overflow(ticks, tree->ns_per_tick, &ns) || ns > INT64_MAX)
        return INT_UNKNOWN;
    return (int64_t)ns;
}

static int64_t pages_to_bytes(const struct proc_tree *tree, uint64_t pages)
{
    uint64_t bytes;

    if (__builtin_mul_overflow(pages, tree->page_bytes, &bytes) || bytes > INT64_MAX)
        return INT_UNKNOWN;
    return (int64_t)bytes;
}

/* Returns the CPU time by the process's own clock, or INT_UNKNOWN. Clock ticks would show a busy
 * loop at 80 to 110 % over 100 ms. */
static int64_t cpu_clock_ns(const struct proc_tree *tree, const struct process_files *files)
{
    struct timespec ts;

    if (!tree->is_live || files->cpu_clock == CLOCK_REALTIME ||
        clock_gettime(files->cpu_clock, &ts) < 0)
        return INT_UNKNOWN;
    return (int64_t)ts.tv_sec * (int64_t)NS_PER_SEC + ts.tv_nsec;
}

/* Reads the CPU time and the time of that reading. Retries if sonde was preempted between the two
 * clocks: the rate of a busy process would be wrong. */
static void read_cpu_time(const struct proc_tree *tree, const struct process_files *files,
                          struct process_reading *ret)
{
    uint64_t before_ns = clock_mono_ns(), after_ns = before_ns;

    for (int attempt = 0; attempt < 3; attempt++) {
        ret->cpu_ns = cpu_clock_ns(tree, files);
        after_ns = clock_mono_ns();
        if (after_ns - before_ns < CLOCKS_APART_NS)
            break;
        before_ns = after_ns;
    }
    ret->mono_ns = before_ns + (after_ns - before_ns) / 2;
}

static void fill_from_stat(const struct proc_tree *tree, const struct proc_stat *stat,
                           struct process_reading *reading)
{
    reading->pid = stat->pid;
    reading->ppid = stat->ppid;
    reading->start_ticks = stat->start_ticks;
    reading->state = stat->state;
    reading->threads = stat->threads;
    reading->faults = (int64_t)stat->faults;
    reading->arg_start = stat->arg_start;
    reading->is_forked = proc_stat_is_forked(stat);
    reading->vsize_bytes =
        stat->vsize_bytes <= INT64_MAX ? (int64_t)stat->vsize_bytes : INT_UNKNOWN;
    reading->user_ns = ticks_to_ns(tree, stat->user_ticks);
    reading->system_ns = ticks_to_ns(tree, stat->system_ticks);
    reading->reaped_user_ns = ticks_to_ns(tree, stat->children_user_ticks);
    reading->reaped_system_ns = ticks_to_ns(tree, stat->children_system_ticks);
    if (!int_is_known(reading->cpu_ns) && int_is_known(reading->user_ns) &&
        int_is_known(reading->system_ns))
        reading->cpu_ns = reading->user_ns + reading->system_ns;
}

/* `length` may be a negative errno, which is returned. */
static int fill_from_statm(const struct proc_tree *tree, const char *bytes, ssize_t length,
                           struct process_reading *reading)
{
    struct proc_statm statm;

    int r = length < 0 ? (int)length : proc_statm_parse(bytes, (size_t)length, &statm);
    if (r < 0)
        return r;
    reading->rss_bytes = pages_to_bytes(tree, statm.resident_pages);
    reading->shared_bytes = pages_to_bytes(tree, statm.shared_pages);
    return 0;
}

/* Returns NULL and sets errno on failure. */
static DIR *open_directory(const struct proc_tree *tree, pid_t pid, const char *name)
{
    char path[PATH_SIZE];

    snprintf(path, sizeof(path), "%d/%s", (int)pid, name);
    return fd_open_directory(tree->root_fd, path);
}

static int64_t count_entries(const struct proc_tree *tree, pid_t pid, const char *name)
{
    DIR *directory = open_directory(tree, pid, name);
    int64_t count = 0;

    if (!directory)
        return INT_UNKNOWN;
    for (struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

/* `name` is the fd directory of the process or of one of its threads. */
static int64_t count_fds(struct proc_tree *tree, struct process_files *files, const char *name)
{
    struct stat st;
    bool is_thread = strcmp(name, file_names[FILE_FD_DIRECTORY]) != 0;

    if (!tree->fd_size_counts)
        return count_entries(tree, files->pid, name);

    int fd = is_thread ? -ENFILE : kept_fd(tree, files, FILE_FD_DIRECTORY);
    if (fd >= 0)
        return fstat(fd, &st) < 0 ? INT_UNKNOWN : st.st_size;

    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%d/%s", (int)files->pid, name);
    return fstatat(tree->root_fd, path, &st, 0) < 0 ? INT_UNKNOWN : st.st_size;
}

/* Returns a thread of the process that has not ended, 0 if there is none, or a negative errno. */
static int find_live_thread(const struct proc_tree *tree, pid_t pid, char *ret_state)
{
    DIR *directory = open_directory(tree, pid, "task");
    int found = 0;

    if (!directory)
        return -errno;
    for (struct dirent *entry; found <= 0 && (entry = readdir(directory));) {
        char name[NAME_SIZE], bytes[FILE_SIZE];
        struct proc_stat stat;
        pid_t thread = (pid_t)atoi(entry->d_name);

        if (thread <= 0)
            continue;
        snprintf(name, sizeof(name), "task/%d/stat", (int)thread);
        ssize_t length = proc_file_read(tree->root_fd, pid, name, bytes, sizeof(bytes));
        if (length < 0)
            found = (int)length; /* unless another thread can be read */
        if (length > 0 && proc_stat_parse(bytes, (size_t)length, &stat) == 0 && stat.state != 'Z' &&
            stat.state != 'X') {
            *ret_state = stat.state;
            found = thread;
        }
    }
    closedir(directory);
    return found;
}

/* A leader that has ended while other threads continue shows no memory and no descriptors; they are
 * read from a live thread. */
static int fill_through_thread(struct proc_tree *tree, struct process_files *files,
                               struct process_reading *reading)
{
    char name[NAME_SIZE], bytes[FILE_SIZE];
    int thread = find_live_thread(tree, files->pid, &reading->state);

    if (thread <= 0)
        return thread;
    snprintf(name, sizeof(name), "task/%d/statm", thread);
    ssize_t length = proc_file_read(tree->root_fd, files->pid, name, bytes, sizeof(bytes));
    snprintf(name, sizeof(name), "task/%d/fd", thread);
    reading->open_fds = count_fds(tree, files, name);
    return fill_from_statm(tree, bytes, length, reading);
}

static bool has_dead_leader(const struct proc_stat *stat)
{
    return stat->state == 'Z' && stat->threads > 1;
}

static void fill_memory_and_fds(struct proc_tree *tree, struct process_files *files,
                                const struct proc_stat *stat, struct process_reading *reading)
{
    char bytes[FILE_SIZE];

    /* Kernel threads have neither; this saves three reads. */
    if (proc_stat_is_kernel_thread(stat)) {
        reading->rss_bytes = reading->shared_bytes = reading->open_fds = 0;
        return;
    }
    if (has_dead_leader(stat)) {
        fill_through_thread(tree, files, reading);
        return;
    }
    fill_from_statm(tree, bytes, read_file(tree, files, FILE_STATM, bytes, sizeof(bytes)), reading);
    reading->open_fds = count_fds(tree, files, file_names[FILE_FD_DIRECTORY]);
}

/* The file is kept open only if it is read every time; otherwise the descriptor is more useful for
 * another process's stat. */
static void fill_status(struct proc_tree *tree, struct process_files *files, bool every_time,
                        struct process_reading *reading)
{
    char bytes[FILE_SIZE];
    struct proc_status status;
    ssize_t length = every_time ? read_file(tree, files, FILE_STATUS, bytes, sizeof(bytes))
                                : proc_file_read(tree->root_fd, files->pid, file_names[FILE_STATUS],
                                                 bytes, sizeof(bytes));

    if (length <= 0 || proc_status_parse(bytes, (size_t)length, &status) < 0)
        return;
    files->uid = status.uid;
    if (!every_time)
        return; /* an occasional peak would switch between known and unknown */
    reading->peak_rss_bytes = status.peak_rss_bytes;
    reading->shmem_bytes = status.shmem_bytes;
    reading->ignores_sigchld = status.ignores_sigchld;
}

/* Spread over the readings by pid; otherwise one reading would pay for all processes. */
static bool identity_is_due(const struct process_files *files)
{
    return (files->readings + (unsigned)files->pid) % IDENTITY_REFRESH == 0;
}

static void fill_fd_limit(struct proc_tree *tree, struct process_files *files)
{
    char bytes[FILE_SIZE];

    if (int_is_known(files->fd_limit) && !identity_is_due(files))
        return;
    ssize_t length = proc_file_read(tree->root_fd, files->pid, "limits", bytes, sizeof(bytes));
    if (length > 0)
        proc_limits_parse_fds(bytes, (size_t)length, &files->fd_limit);
}

/* Reads the I/O of one thread. */
static int read_thread_io(const struct proc_tree *tree, pid_t pid, pid_t thread,
                          struct proc_io *ret)
{
    char name[NAME_SIZE], bytes[FILE_SIZE];

    snprintf(name, sizeof(name), "task/%d/io", (int)thread);
    ssize_t length = proc_file_read(tree->root_fd, pid, name, bytes, sizeof(bytes));
    return length < 0 ? (int)length : proc_io_parse(bytes, (size_t)length, ret);
}

/* Reads the I/O of the first threads of the process. A thread that vanishes is omitted. */
static int read_threads_io(const struct proc_tree *tree, pid_t pid, struct proc_io *ret)
{
    DIR *directory = open_directory(tree, pid, "task");
    struct proc_io sum = {0}, io;
    int threads = 0;

    if (!directory)
        return -errno;
    for (struct dirent *entry; threads < IO_THREADS_MAX && (entry = readdir(directory));) {
        pid_t thread = (pid_t)atoi(entry->d_name);

        if (thread <= 0 || read_thread_io(tree, pid, thread, &io) < 0 ||
            !int_is_known(io.read_bytes) || !int_is_known(io.write_bytes))
            continue;
        sum.read_bytes += io.read_bytes;
        sum.write_bytes += io.write_bytes;
        threads++;
    }
    closedir(directory);
    *ret = sum;
    return threads ? 0 : -EACCES;
}

/* The file of the process also contains the I/O of the children that it has reaped, those of its
 * threads do not. I/O of ended threads counts as that of children: /proc does not separate them. */
static void fill_io(struct proc_tree *tree, struct process_files *files,
                    struct process_reading *reading)
{
    char bytes[FILE_SIZE];
    struct proc_io all, own = {0};
    ssize_t length = read_file(tree, files, FILE_IO, bytes, sizeof(bytes));
    int r = 0;

    if (length <= 0 || proc_io_parse(bytes, (size_t)length, &all) < 0 ||
        !int_is_known(all.read_bytes) || !int_is_known(all.write_bytes))
        return;
    if (all.read_bytes || all.write_bytes)
        r = reading->threads > 1 ? read_threads_io(tree, files->pid, &own)
                                 : read_thread_io(tree, files->pid, files->pid, &own);
    if (r < 0)
        return;
    reading->read_bytes = own.read_bytes;
    reading->write_bytes = own.write_bytes;
    reading->reaped_read_bytes = MAX(all.read_bytes - own.read_bytes, (int64_t)0);
    reading->reaped_write_bytes = MAX(all.write_bytes - own.write_bytes, (int64_t)0);
}

static void fill_extras(struct proc_tree *tree, struct process_files *files,
                        struct process_reading *reading)
{
    fill_status(tree, files, true, reading);
    fill_io(tree, files, reading);
    fill_fd_limit(tree, files);
}

static int read_command(struct proc_tree *tree, struct process_files *files,
                        const struct proc_stat *stat, const char **ret)
{
    const struct process_title title = {
        .pid = files->pid,
        .name = stat->name,
        .arg_start = stat->arg_start,
        .state = stat->state,
        .is_kernel_thread = proc_stat_is_kernel_thread(stat),
    };

    if (process_command_is_stale(&files->command, &title)) {
        int r = process_command_refresh(&files->command, tree->root_fd, &title);
        if (r < 0)
            return r;
        /* An exec may change these too. */
        files->fd_limit = files->uid = INT_UNKNOWN;
    }
    return process_command_show(&files->command, tree->redaction, ret);
}

static void reading_init(struct process_reading *reading)
{
    *reading = (struct process_reading){
        .cpu_ns = INT_UNKNOWN,
        .rss_bytes = INT_UNKNOWN,
        .shared_bytes = INT_UNKNOWN,
        .open_fds = INT_UNKNOWN,
        .peak_rss_bytes = INT_UNKNOWN,
        .shmem_bytes = INT_UNKNOWN,
        .faults = INT_UNKNOWN,
        .fd_limit = INT_UNKNOWN,
        .read_bytes = INT_UNKNOWN,
        .write_bytes = INT_UNKNOWN,
        .reaped_read_bytes = INT_UNKNOWN,
        .reaped_write_bytes = INT_UNKNOWN,
        .uid = INT_UNKNOWN,
    };
}

int process_files_begin(struct proc_tree *tree, struct process_files *files,
                        struct proc_stat *ret_stat, struct process_reading *ret)
{
    reading_init(ret);
    /* The clock first: if the kept stat file can be read afterwards, the clock was that of the same
     * process. */
    read_cpu_time(tree, files, ret);
    int r = read_stat(tree, files, ret_stat);
    if (r < 0)
        return r;
    /* Reaped during the read: it has no parent any more, and its figures belong to the parent. The
     * kernel reads the state first, so the file may say Z with 0 threads. */
    if (ret_stat->state == 'X' || ret_stat->state == 'x' || ret_stat->threads == 0)
        return -ESRCH;
    if (files->start_ticks && files->start_ticks != ret_stat->start_ticks)
        return -EAGAIN;
    files->start_ticks = ret_stat->start_ticks;
    fill_from_stat(tree, ret_stat, ret);
    return 0;
}

int process_files_finish(struct proc_tree *tree, struct process_files *files,
                         const struct proc_stat *stat, bool with_extras,
                         struct process_reading *reading)
{
    fill_memory_and_fds(tree, files, stat, reading);
    int r = read_command(tree, files, stat, &reading->command);
    if (r < 0)
        return r;
    if (with_extras)
        fill_extras(tree, files, reading);
    else if (!int_is_known(files->uid) || identity_is_due(files))
        fill_status(tree, files, false, reading);
    if (!with_extras && reading->open_fds >= MANY_FDS)
        fill_fd_limit(tree, files);
    files->readings++;

    reading->uid = files->uid;
    reading->fd_limit = files->fd_limit;
    return 0;
}

/* ---- frequent readings ---- */

int process_files_read_cpu(const struct proc_tree *tree, const struct process_files *files,
                           struct process_reading *ret)
{
    struct process_reading reading;

    reading_init(&reading);
    read_cpu_time(tree, files, &reading);
    if (!int_is_known(reading.cpu_ns))
        return -ESRCH;
    reading.pid = files->pid;
    reading.start_ticks = files->start_ticks;
    *ret = reading;
    return 0;
}

int process_files_memory(struct proc_tree *tree, struct process_files *files,
                         const struct proc_stat *stat, bool with_peak,
                         struct process_reading *reading)
{
    char bytes[FILE_SIZE];
    int r;

    if (stat && has_dead_leader(stat))
        r = fill_through_thread(tree, files, reading);
    else
        r = fill_from_statm(tree, bytes, read_file(tree, files, FILE_STATM, bytes, sizeof(bytes)),
                            reading);
    /* 0 means that the process is exiting and has released its memory. */
    if (reading->rss_bytes == 0)
        reading->rss_bytes = reading->shared_bytes = INT_UNKNOWN;
    if (with_peak)
        fill_status(tree, files, true, reading);
    return r < 0 ? to_esrch(r) : 0;
}

int process_files_reset_peak(const struct proc_tree *tree, const struct process_files *files)
{
    /* CLEAR_REFS_MM_HIWATER_RSS, Documentation/filesystems/proc.rst */
    _cleanup_close_ int fd = proc_file_open(tree->root_fd, files->pid, "clear_refs", O_WRONLY);
    return fd < 0 ? to_esrch(fd) : fd_write_all(fd, "5", 1);
}
