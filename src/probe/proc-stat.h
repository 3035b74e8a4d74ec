/* PID/stat: state, parent, size, threads, start, user/system time, the children's times.
 *
 * The name stands in parentheses and may itself hold ") ", newlines and anything else: it ends at
 * the last ')'. RSS is not taken from here: field 24 is inexact on new kernels (statm is exact). */
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
    uint64_t user_ticks;
    uint64_t system_ticks;
    uint64_t children_user_ticks; /* of the children it has reaped */
    uint64_t children_system_ticks;
    int64_t threads;
    uint64_t start_ticks; /* since boot */
    uint64_t vsize_bytes;
    uint64_t arg_start; /* 0 where this user may not see it; moves with every exec */
};

/* 0, or -EBADMSG if the bytes are not such a file (truncated, garbled, out of range). Fields after
 * arg_start are not looked at. */
int proc_stat_parse(const char *bytes, size_t length, struct proc_stat *ret);

/* A kernel thread: no memory of its own, no command line. */
bool proc_stat_is_kernel_thread(const struct proc_stat *stat);
