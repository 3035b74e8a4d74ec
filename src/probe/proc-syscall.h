/* PID/task/TID/syscall: the call that a thread is in, by its number; "running" while it is on a
 * CPU;
 * "-1 …" while it waits for something else (a page, a stop). */
#pragma once

#include <stddef.h>

#include "probe/thread-call.h"

/* Whether, and in which call it is. 0 or -EBADMSG. */
int proc_syscall_parse(const char *bytes, size_t length, struct thread_call *ret);

/* Threads of one process that are looked at, at most: it is a sample, and each costs two calls. */
#define PROC_SYSCALL_THREADS_MAX 128

/* Looks at the threads of each process, below `root_fd`, which is /proc. Those that are gone, or
 * that we may not look at, are left out. 0; or a negative errno: -EOPNOTSUPP if the kernel does not
 * tell (CONFIG_HAVE_ARCH_TRACEHOOK), -EACCES if there were some and none could be looked at. */
int proc_syscall_sample(int root_fd, const pid_t *pids, size_t count, thread_call_fn on_thread,
                        void *context);
