/* Checks whether a process can be traced, and as which user, before strace starts, so that errors
 * are clear. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "loop/spawn.h"

#define TRACE_REASON_SIZE 256

/* Formats the reason of an error, without a newline, and returns `error`. */
int trace_fail(char reason[static TRACE_REASON_SIZE], int error, const char *format, ...)
    _printf_(3, 4);

struct trace_target {
    pid_t pid;
    uint64_t start_ticks;
    struct spawn_user user; /* its owner */
    bool needs_user;        /* strace must run as that user */
    pid_t tracer_pid;       /* 0: none */
};

/* Reads and checks a process. `uid` is the required owner; INT_UNKNOWN: any. Returns 0; or, with
 * the reason, -ESRCH (gone, or ended), -EACCES (another user's), -EPERM (runs with other rights
 * than its user's) or another negative errno. */
int trace_target_read(pid_t pid, int64_t uid, struct trace_target *ret,
                      char reason[static TRACE_REASON_SIZE]);
/* Sets the reason and returns -EBUSY: another tracer is attached. */
int trace_target_fail_busy(const struct trace_target *target,
                           char reason[static TRACE_REASON_SIZE]);
/* Sets the reason and returns -ENOENT: strace is not installed. */
int trace_target_fail_no_strace(char reason[static TRACE_REASON_SIZE]);
