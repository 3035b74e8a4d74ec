/* Reads the facts about a process that job rules match: once per process, never on the hot path. */
#pragma once

#include <sys/types.h>

#include "model/process-facts.h"

/* Longer command lines and environments are cut. */
#define FACT_MAX_BYTES (128 * 1024)

/* Reads the requested facts. `root_fd` is the directory mounted as /proc. Strings are allocated in
 * `arena`; facts that cannot be read are NULL. Returns 0, -ESRCH (the process is gone), -ENOMEM, or
 * another negative errno. */
int process_facts_read(int root_fd, pid_t pid, const struct fact_request *request,
                       struct arena *arena, struct process_facts *ret);

/* Calls `on_child` once for every present descendant of `pid`, parents before their children, from
 * the kernel's lists of children. Returns 0, -ESRCH (the process is gone), -EOPNOTSUPP (the kernel
 * has no such lists), -E2BIG (more than 65,536 descendants), or another negative errno, possibly
 * after some calls. */
int process_descendants_read(int root_fd, pid_t pid,
                             void (*on_child)(void *context, pid_t pid, pid_t ppid), void *context);
