/* PID/task/TID/children: the processes that a thread has forked, a blank after each. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

typedef int (*proc_child_fn)(void *context, pid_t pid);

/* Hands each to `on_child`, until that fails. 0, what that gave, or -EBADMSG: those before the bad
 * one have been handed over. A last number without a blank was cut by the reader's buffer, and is
 * passed over. */
int proc_children_parse(const char *bytes, size_t length, proc_child_fn on_child, void *context);
