/* The /proc files of one process, possibly kept open, and the values cached between readings:
 * command line, user, descriptor limit. */
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

/* State shared by all processes of one proc filesystem. */
struct proc_tree {
    int root_fd;
    bool is_live;        /* of our own pid namespace: CPU clocks can be read by pid */
    bool fd_size_counts; /* st_size of an fd directory is the number of descriptors (Linux 6.2) */
    unsigned budget;     /* descriptors that may be kept */
    unsigned kept;
    uint64_t ns_per_tick;
    uint64_t page_bytes;
    const struct redaction *redaction; /* of command lines; NULL: none */
};

/* Initialises a tree below `root_fd`, which the caller still owns and must keep open. */
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

    /* used by procfs.c */
    unsigned generation; /* the last scan that saw it */
    bool is_skipped;     /* skipped permanently */
    uint64_t inode;      /* of its directory, if skipped: a new process with the pid has another */
};

struct process_files *process_files_new(pid_t pid);
void process_files_free(struct proc_tree *tree, struct process_files *files);

/* Closes the kept descriptors; cached values stay. */
void process_files_release(struct proc_tree *tree, struct process_files *files);

/* A reading has two steps, so that the caller can decide in between whether it wants the process:
 * begin reads CPU time, state, parent and start; finish reads the other core fields and, with
 * `with_extras`, the extras. Begin returns 0, -ESRCH (the process is gone), -EAGAIN (the pid
 * belongs to another process now, and `files` must be recreated) or another negative errno. Finish
 * returns 0 or -ENOMEM. */
int process_files_begin(struct proc_tree *tree, struct process_files *files,
                        struct proc_stat *ret_stat, struct process_reading *ret);
int process_files_finish(struct proc_tree *tree, struct process_files *files,
                         const struct proc_stat *stat, bool with_extras,
                         struct process_reading *reading);

/* The following functions are for frequent readings of a few values; they allocate nothing. */

/* Reads only the CPU time. Returns 0, or -ESRCH if the clock cannot be read, possibly because the
 * process is gone. While the CPU time does not change, the process has not run, grown or forked. */
int process_files_read_cpu(const struct proc_tree *tree, const struct process_files *files,
                           struct process_reading *ret);

/* Adds RSS and, with `with_peak`, the peak RSS to a reading that was begun; `stat` is NULL after
 * process_files_read_cpu(). Values that cannot be read, and the memory of a zombie, are unknown.
 * Returns 0, or a negative errno if the RSS could not be read. */
int process_files_memory(struct proc_tree *tree, struct process_files *files,
                         const struct proc_stat *stat, bool with_peak,
                         struct process_reading *reading);

/* Resets the kernel's peak RSS of the process to its present RSS. Every other reader sees the
 * reset. Returns 0 or a negative errno. */
int process_files_reset_peak(const struct proc_tree *tree, const struct process_files *files);
