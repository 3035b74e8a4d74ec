#include "probe/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/map.h"
#include "base/number.h"
#include "base/vec.h"
#include "probe/process-files.h"

/* Descriptors left to the rest of the program. */
#define BUDGET_RESERVE 256
/* A kept descriptor costs the kernel about 4 KiB; this many cost 64 MiB. */
#define BUDGET_MAX 16384

struct procfs {
    struct proc_tree tree;
    DIR *directory;
    struct map processes; /* pid → struct process_files */
    unsigned generation;
};

int procfs_new(const char *root, unsigned descriptor_budget, struct procfs **ret)
{
    _cleanup_(procfs_freep) struct procfs *procfs = calloc(1, sizeof(*procfs));
    if (!procfs)
        return -ENOMEM;

    procfs->directory = opendir(root);
    if (!procfs->directory)
        return -errno;
    proc_tree_init(&procfs->tree, dirfd(procfs->directory), descriptor_budget);
    *ret = TAKE_PTR(procfs);
    return 0;
}

void procfs_free(struct procfs *procfs)
{
    size_t position = 0;

    if (!procfs)
        return;
    for (struct process_files *files; (files = map_next(&procfs->processes, &position));)
        process_files_free(&procfs->tree, files);
    map_done(&procfs->processes);
    if (procfs->directory)
        closedir(procfs->directory);
    free(procfs);
}

void procfs_freep(struct procfs **procfs)
{
    procfs_free(*procfs);
}

bool procfs_is_live(const struct procfs *procfs)
{
    return procfs->tree.is_live;
}

int procfs_root_fd(const struct procfs *procfs)
{
    return procfs->tree.root_fd;
}

unsigned procfs_default_budget(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur <= BUDGET_RESERVE)
        return 0;
    return (unsigned)MIN(limit.rlim_cur - BUDGET_RESERVE, (rlim_t)BUDGET_MAX);
}

static void drop_files(struct procfs *procfs, pid_t pid)
{
    process_files_free(&procfs->tree, map_remove(&procfs->processes, (uint64_t)pid));
}

/* Returns the files of a pid, creating the entry if needed; NULL if out of memory. */
static struct process_files *get_files(struct procfs *procfs, pid_t pid)
{
    struct process_files *files = map_get(&procfs->processes, (uint64_t)pid);
    if (files)
        return files;

    files = process_files_new(pid);
    if (files && map_put(&procfs->processes, (uint64_t)pid, files) < 0) {
        process_files_free(&procfs->tree, files);
        return NULL;
    }
    return files;
}

/* Drops processes that the present scan did not see. */
static int drop_unseen(struct procfs *procfs)
{
    struct VEC(pid_t) gone = {0};
    size_t position = 0;
    int r = 0;

    for (struct process_files *files; (files = map_next(&procfs->processes, &position));)
        if (files->generation != procfs->generation && r == 0)
            r = VEC_PUSH(&gone, files->pid);
    for (size_t i = 0; i < gone.count; i++)
        drop_files(procfs, gone.items[i]);
    VEC_DONE(&gone);
    return r;
}

/* Begins the reading of a pid; recreates its entry if the pid belongs to a new process. Returns 0,
 * -ESRCH (no such process), or -EMFILE, -ENFILE, -ENOMEM (it cannot be read). */
static int begin_process(struct procfs *procfs, pid_t pid, struct process_files **ret_files,
                         struct proc_stat *ret_stat, struct process_reading *ret_reading)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        struct process_files *files = get_files(procfs, pid);
        if (!files)
            return -ENOMEM;
        int r = process_files_begin(&procfs->tree, files, ret_stat, ret_reading);
        if (r == 0) {
            files->generation = procfs->generation;
            *ret_files = files;
            return 0;
        }
        /* The process exists but cannot be read: fail instead of omitting it silently. */
        if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
            return r;
        /* A kept file reports that its process is gone even if a new process has the pid. */
        bool may_be_another = r == -EAGAIN || files->start_ticks;
        drop_files(procfs, pid);
        if (!may_be_another)
            break;
    }
    return -ESRCH;
}

/* The skip is permanent only if the parent is known: a child with a smaller pid is scanned before
 * its parent, and may be wanted once the parent is. */
static void mark_skipped(struct procfs *procfs, struct process_files *files, pid_t ppid,
                         uint64_t inode)
{
    process_files_release(&procfs->tree, files);
    files->is_skipped = map_get(&procfs->processes, (uint64_t)ppid) != NULL;
    files->inode = inode;
}

/* Whether the process was skipped before and is still the same one: a new process with the same pid
 * has a directory with another inode. */
static bool is_skipped(struct procfs *procfs, pid_t pid, uint64_t inode)
{
    struct process_files *files = map_get(&procfs->processes, (uint64_t)pid);

    if (!files || !files->is_skipped)
        return false;
    if (files->inode != inode) {
        drop_files(procfs, pid);
        return false;
    }
    files->generation = procfs->generation;
    return true;
}

static int scan_one(struct procfs *procfs, pid_t pid, uint64_t inode, probe_depth_fn depth,
                    void *context, struct readings *out)
{
    struct process_files *files;
    struct proc_stat stat;

    if (is_skipped(procfs, pid, inode))
        return 0;
    int r = VEC_RESERVE(out, out->count + 1);
    if (r < 0)
        return r;
    struct process_reading *reading = &out->items[out->count];
    r = begin_process(procfs, pid, &files, &stat, reading);
    if (r < 0)
        return r == -ESRCH ? 0 : r;

    enum probe_depth wanted = depth ? depth(context, reading) : PROBE_CORE;
    if (wanted == PROBE_SKIP) {
        mark_skipped(procfs, files, stat.ppid, inode);
        return 0;
    }
    r = process_files_finish(&procfs->tree, files, &stat, wanted == PROBE_EXTRAS, reading);
    if (r == 0)
        out->count++;
    return r;
}

static void begin_reading(struct procfs *procfs, struct readings *out)
{
    procfs->generation++;
    out->count = 0;
    out->moment = moment_now();
    procfs->tree.redaction = out->redaction;
}

int procfs_scan(struct procfs *procfs, probe_depth_fn depth, void *context, struct readings *out,
                size_t *ret_total)
{
    size_t total = 0;

    begin_reading(procfs, out);
    rewinddir(procfs->directory);
    for (struct dirent *entry; (entry = readdir(procfs->directory));) {
        int64_t pid;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            number_parse_int(entry->d_name, &pid) < 0 || pid > INT32_MAX)
            continue;
        total++;
        int r = scan_one(procfs, (pid_t)pid, entry->d_ino, depth, context, out);
        if (r < 0)
            return r;
    }
    *ret_total = total;
    return drop_unseen(procfs);
}

static enum probe_depth always_extras(void *context _unused_,
                                      const struct process_reading *begun _unused_)
{
    return PROBE_EXTRAS;
}

int procfs_read_pids(struct procfs *procfs, const pid_t *pids, size_t count, struct readings *out)
{
    begin_reading(procfs, out);
    for (size_t i = 0; i < count; i++) {
        int r = scan_one(procfs, pids[i], 0, always_extras, NULL, out);
        if (r < 0)
            return r;
    }
    return drop_unseen(procfs);
}

void readings_done(struct readings *readings)
{
    VEC_DONE(readings);
}
