/* Checks whether a process can be traced, and as which user, before strace starts, so that errors
 * are clear. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "loop/spawn.h"

#define TRACE_REASON_SIZE 256

struct trace_target {
    pid_t pid;
    uint64_t start_ticks;
    struct spawn_user user; /* its owner */
    bool needs_user;        /* strace must run as that user */
    pid_t tracer_pid;       /* 0: none */
};

/* `uid` is the required owner; INT_UNKNOWN: any. Returns 0; -ESRCH (gone, or ended); -EACCES
 * (another user's); -EPERM (runs with other rights than its user's); or another negative errno;
 * with the reason for all but 0. */
int trace_target_read(pid_t pid, int64_t uid, struct trace_target *ret,
                      char reason[static TRACE_REASON_SIZE]);
/* Sets the reason and returns -EBUSY: another tracer is attached. */
int trace_target_busy(const struct trace_target *target, char reason[static TRACE_REASON_SIZE]);
/* Sets the reason and returns -ENOENT: strace is not installed. */
int trace_target_no_strace(char reason[static TRACE_REASON_SIZE]);
