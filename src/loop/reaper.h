/* The only reaper. `sonde run` is a subreaper, so that it waits not only for the children that it
 * started, but also for orphans of the job. */
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "loop/helper.h"

typedef void (*child_fn)(void *context, pid_t pid, int wait_status, const struct rusage *usage);

/* Reports every child that has ended, stopped or continued since the last call. Helpers are passed
 * to helpers_reap() instead; `helpers` may be NULL. For an ended child, `usage` is exact: its own
 * figures and those of all children that it had reaped. Returns 0 while children are left, -ECHILD
 * when there are none, or another negative errno. */
int reaper_collect(struct helpers *helpers, child_fn on_child, void *context);

/* Reports every present child of this thread, including zombies and children that this program
 * inherited over exec. Returns 0 or a negative errno; fails on kernels without
 * CONFIG_PROC_CHILDREN. */
int reaper_list_children(void (*on_child)(void *context, pid_t pid), void *context);

/* Makes the kernel reparent orphaned descendants to this process. Returns 0 or a negative errno. */
int reaper_become_subreaper(void);
