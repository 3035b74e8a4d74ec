/* Whether a process can be traced, and as which user: asked before strace is, so that the answer is
 * a clear one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "loop/spawn.h"

struct trace_target {
    pid_t pid;
    uint64_t start_ticks;
    struct spawn_user user; /* whose it is, and who strace is run as */
    bool is_ours;           /* we are that user */
    pid_t tracer_pid;       /* 0: none */
};

/* 0; -ESRCH (it is gone); -EPERM: it is another user's, or has changed its rights; or another
 * negative errno. With words for all but 0. */
int trace_target_read(pid_t pid, struct trace_target *ret, char *words, size_t size);
