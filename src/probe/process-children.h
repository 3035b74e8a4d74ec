/* The children of one process, for whoever asks often: nothing is allocated, and the list of the
 * first thread, which is the only one of most processes, may be kept open. (process-facts.h has all
 * descendants at once.) */
#pragma once

#include <stdint.h>

#include "probe/proc-children.h"

/* Opens the list of the first thread. A descriptor, -ESRCH (it is gone), -EOPNOTSUPP (the kernel
 * keeps no such lists) or another negative errno. */
int process_children_open(int root_fd, pid_t pid);

/* Tells of the children of a process with so many threads. `fd` is its open list, or -1. 0, what
 * `on_child` gave, or a negative errno as above: then some have been told of. */
int process_children_read(int root_fd, pid_t pid, int64_t threads, int fd, proc_child_fn on_child,
                          void *context);
