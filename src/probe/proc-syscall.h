/* PID/task/TID/syscall: the number of the system call that a thread is in; "running" while it is on
 * a CPU; "-1 …" while it is blocked outside a call (a page fault, a stop). */
#pragma once

#include <stddef.h>

#include "probe/thread-call.h"

/* Sets `call` and `is_on_cpu` only. Returns 0 or -EBADMSG. */
int proc_syscall_parse(const char *bytes, size_t length, struct thread_call *ret);

/* Upper limit of threads to sample per process: each costs two system calls. */
#define PROC_SYSCALL_THREADS_MAX 128

/* Samples the threads of each process below `root_fd`, a proc filesystem. Threads that are gone or
 * not permitted are omitted. Returns 0; -EOPNOTSUPP if the kernel has no such file
 * (CONFIG_HAVE_ARCH_TRACEHOOK); -EACCES if no thread could be read and one was not permitted; or
 * another negative errno. */
int proc_syscall_sample(int root_fd, const pid_t *pids, size_t count, thread_call_fn on_thread,
                        void *context);
