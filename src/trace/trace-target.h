/* Whether a process can be traced, and as which user: asked before strace is, so that the answer is
 * a clear one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "loop/spawn.h"

#define TRACE_WORDS_SIZE 256

struct trace_target {
    pid_t pid;
    uint64_t start_ticks;
    struct spawn_user user; /* whose it is */
    bool needs_user;        /* strace has to become that user: it is not ours */
    pid_t tracer_pid;       /* 0: none */
};

/* `uid` is whose it must be; INT_UNKNOWN: anybody's. 0; -ESRCH (it is gone, or has ended); -EACCES:
 * it is another's; -EPERM: it has other rights than its user; or another negative errno. With words
 * for all but 0. */
int trace_target_read(pid_t pid, int64_t uid, struct trace_target *ret,
                      char words[static TRACE_WORDS_SIZE]);
/* Somebody else traces it: -EBUSY, with words. */
int trace_target_is_taken(const struct trace_target *target, char words[static TRACE_WORDS_SIZE]);
/* There is no strace: -ENOENT, with words. */
int trace_target_lacks_strace(char words[static TRACE_WORDS_SIZE]);
