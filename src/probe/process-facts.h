/* Reads what rules want to know of a process: once each, never on the hot path. */
#pragma once

#include <sys/types.h>

#include "model/process-facts.h"

/* Longer command lines and environments are cut. */
#define FACT_MAX_BYTES (128 * 1024)

/* `root_fd` is the directory mounted as /proc. Texts are placed in `arena`. What may not be read is
 * NULL. 0, -ESRCH (it is gone), -ENOMEM, or another negative errno. */
int process_facts_read(int root_fd, pid_t pid, const struct fact_request *request,
                       struct arena *arena, struct process_facts *ret);

/* Every descendant of `pid` there is now, by the kernel's lists of children, parents before their
 * children, each once. 0, -ESRCH (it is gone), -EOPNOTSUPP (the kernel keeps no such lists), -E2BIG
 * (there are more than 65,536), or another negative errno: then some have been told of. */
int process_descendants_read(int root_fd, pid_t pid,
                             void (*on_child)(void *context, pid_t pid, pid_t ppid), void *context);
