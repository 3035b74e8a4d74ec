/* Reads the children of one process, for callers that read often: nothing is allocated, and the
 * list of the first thread (most processes have only one) may be kept open. process-facts.h reads
 * all descendants at once. */
#pragma once

#include <stdint.h>

#include "probe/proc-children.h"

/* Opens the list of the first thread. Returns a descriptor, -ESRCH (the process is gone),
 * -EOPNOTSUPP (the kernel has no such lists) or another negative errno. */
int process_children_open(int root_fd, pid_t pid);

/* Calls `on_child` for each child of a process with `threads` threads. `fd` is its open list, or
 * -1. Returns 0, the error of `on_child`, or a negative errno as above, possibly after some
 * calls. */
int process_children_read(int root_fd, pid_t pid, int64_t threads, int fd, proc_child_fn on_child,
                          void *context);
