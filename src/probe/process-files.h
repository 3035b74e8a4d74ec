/* One process's files, kept open or not, and what is remembered of it between readings: its command
 * line, its user, its limit. The part of the procfs collector that knows a single process. */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "model/process.h"
#include "probe/proc-stat.h"
#include "probe/process-command.h"
#include "probe/reading.h"

enum process_file {
    FILE_STAT,
    FILE_STATM,
    FILE_FD_DIRECTORY,
    FILE_STATUS,
    FILE_IO,
    PROCESS_FILE_COUNT,
};

/* What is true of the whole tree of files. */
struct proc_tree {
    int root_fd;
    bool is_live;        /* our own pid namespace's: the pids are real, CPU clocks may be asked */
    bool fd_size_counts; /* st_size of an fd directory is the number of descriptors (Linux 6.2) */
    unsigned budget;     /* descriptors that may be kept */
    unsigned kept;
    uint64_t ns_per_tick;
    uint64_t page_bytes;
};

/* `root_fd` stays the caller's. */
void proc_tree_init(struct proc_tree *tree, int root_fd, unsigned descriptor_budget);

struct process_files {
    pid_t pid;
    uint64_t start_ticks; /* 0 until the first reading */
    clockid_t cpu_clock;
    int fds[PROCESS_FILE_COUNT]; /* -1: not kept */
    struct process_command command;
    unsigned readings;
    int64_t uid;
    int64_t fd_limit;

    /* for the set that it is in */
    unsigned generation; /* the last scan that saw it */
    bool is_skipped;     /* refused once and for all */
    uint64_t inode;      /* of its directory, if so: another process of that pid has another */
};

struct process_files *process_files_new(pid_t pid);
void process_files_free(struct proc_tree *tree, struct process_files *files);

/* Closes what is kept open; what is remembered stays. */
void process_files_release(struct proc_tree *tree, struct process_files *files);

/* A reading is begun (CPU time, state, parent, start), so that it can be decided whether the
 * process is wanted, and finished with the other core fields and, if asked for, the extras. Begin:
 * -ESRCH: it is gone; -EAGAIN: the pid belongs to another process now, and `files` must be made
 * anew. Finish: 0 or -ENOMEM. */
int process_files_begin(struct proc_tree *tree, struct process_files *files,
                        struct proc_stat *ret_stat, struct process_reading *ret);
int process_files_finish(struct proc_tree *tree, struct process_files *files,
                         const struct proc_stat *stat, bool with_extras,
                         struct process_reading *reading);

/* For whoever looks often, at few processes and at little of them; nothing is allocated.
 *
 * The CPU time alone: -ESRCH if that cannot be asked for, perhaps because the process is gone.
 * While it has not moved, the process has done nothing, nor grown, nor forked. */
int process_files_glance(const struct proc_tree *tree, const struct process_files *files,
                         struct process_reading *ret);

/* RSS and, if asked for, the high-water mark, into a reading that was begun; `stat` is NULL if that
 * was by a glance. What cannot be read is unknown, and so is the memory of a zombie. 0, or a
 * negative errno that says why the RSS could not be read. */
int process_files_memory(struct proc_tree *tree, struct process_files *files,
                         const struct proc_stat *stat, bool with_peak,
                         struct process_reading *reading);

/* Resets the high-water mark to what the process has now, for everyone. 0 or a negative errno. */
int process_files_reset_peak(const struct proc_tree *tree, const struct process_files *files);
