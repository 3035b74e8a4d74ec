/* PID/stat: state, parent, size, threads, start, user and system time, times of reaped children.
 *
 * The name is in parentheses and may contain ") ", newlines and any other byte: it ends at the last
 * ')'. RSS comes from statm, because field 24 is inexact on new kernels. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_NAME_SIZE 65 /* 15 bytes for a process; 63 for a kernel worker */

struct proc_stat {
    pid_t pid;
    char name[PROC_NAME_SIZE]; /* raw bytes, NUL-terminated */
    char state;
    pid_t ppid;
    uint64_t flags;
    uint64_t faults; /* minor and major, of all threads */
    uint64_t user_ticks;
    uint64_t system_ticks;
    uint64_t children_user_ticks; /* of the children it has reaped */
    uint64_t children_system_ticks;
    int64_t threads;
    uint64_t start_ticks; /* since boot */
    uint64_t vsize_bytes;
    uint64_t arg_start; /* changes with every exec; 0 if this user may not see it */
};

/* Returns 0, or -EBADMSG if the file is truncated, malformed or has a value out of range. Fields
 * after arg_start are ignored. */
int proc_stat_parse(const char *bytes, size_t length, struct proc_stat *ret);

/* Returns whether the process has not called exec since its fork. */
bool proc_stat_is_forked(const struct proc_stat *stat);

/* Returns whether the process is a kernel thread, which has no memory and no command line. */
bool proc_stat_is_kernel_thread(const struct proc_stat *stat);
