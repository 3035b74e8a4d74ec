/* The one reaper. sonde is a subreaper, so that what it waits for is not only what it started:
 * orphans of a job come to it as well. */
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "loop/helper.h"

typedef void (*child_fn)(void *context, pid_t pid, int wait_status, const struct rusage *usage);

/* Reports every child that has ended, stopped or continued since the last call, except helpers
 * (NULL: there are none), which are reaped as such. `usage` is exact for ended ones: their own
 * figures and those of all that they had reaped. Returns 0 while there are children left, -ECHILD
 * when there are none. */
int reaper_collect(struct helpers *helpers, child_fn on_child, void *context);

/* Names every child there is now, ended ones included, whether or not it was started here. 0 or a
 * negative errno: the kernel need not be able to tell (CONFIG_PROC_CHILDREN). */
int reaper_list_children(void (*on_child)(void *context, pid_t pid), void *context);

/* Orphaned descendants are to be reparented to this process. 0 or a negative errno. */
int reaper_become_subreaper(void);
