/* A look at one process out of turn, whatever the collector does: who sent a signal, whose child it
 * is, whether it is still the same one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/proc-stat.h"
#include "probe/proc-status.h"

/* Its command line, cut to `size`, cleaned; "" if it is gone, or has none. */
void peek_command(pid_t pid, char *into, size_t size);

/* Whether it was reaped: not even a zombie has the pid. */
bool peek_is_gone(pid_t pid);

/* 0, or a negative errno: it is gone. */
int peek_stat(pid_t pid, struct proc_stat *ret);

/* Whose it is, by its real uid, and since when it is there: both of the same process. 0, or a
 * negative errno: it is gone, or cannot be read. */
int peek_owner(pid_t pid, uint64_t *ret_start_ticks, int64_t *ret_uid);

/* How many processes the kernel has killed for memory since boot; INT_UNKNOWN: it does not tell. */
int64_t peek_oom_kills(void);

/* As peek_owner(), with all that its status tells. */
int peek_status(pid_t pid, uint64_t *ret_start_ticks, struct proc_status *ret);
