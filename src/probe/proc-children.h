/* PID/task/TID/children: the pids of a thread's children, each followed by a blank. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

typedef int (*proc_child_fn)(void *context, pid_t pid);

/* Calls `on_child` for each pid until it fails. Returns 0, the error of `on_child`, or -EBADMSG
 * after the calls for the pids before the malformed one. A last number without a blank was cut by
 * the reader's buffer and is ignored. */
int proc_children_parse(const char *bytes, size_t length, proc_child_fn on_child, void *context);
