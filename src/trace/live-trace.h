/* A full trace of one process, live: `sonde top --trace`. It has a loop of its own and needs no
 * daemon. */
#pragma once

#include <sys/types.h>

#include "trace/trace-target.h"

/* Writes the trace to a file, which is truncated, or to stdout (NULL). Blocks until the process has
 * ended, a signal such as Ctrl-C arrives, or the output cannot be written; the process continues.
 * strace is killed if it does not detach. Returns 0, or a negative errno with the reason. */
int live_trace(pid_t pid, const char *path, char reason[static TRACE_REASON_SIZE]);
