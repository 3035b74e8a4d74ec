/* Reads facts about one process by its pid, independently of the collector: who sent a signal,
 * whose child a process is, whether a pid is still the same process.
 *
 * `proc_root` is the directory of a proc filesystem. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/proc-stat.h"
#include "probe/proc-status.h"

/* Writes the cleaned command line, cut to `size`; "" if the process is gone or has none. */
void process_lookup_command(const char *proc_root, pid_t pid, char *into, size_t size);

/* Returns whether the process was reaped: no zombie has the pid either. */
bool process_lookup_is_gone(pid_t pid);

/* Reads PID/stat. Returns 0, or a negative errno if the process is gone. */
int process_lookup_stat(const char *proc_root, pid_t pid, struct proc_stat *ret);

/* Reads the status and the start time of one and the same process. Returns 0, or a negative errno
 * if the process is gone or cannot be read. */
int process_lookup_status(const char *proc_root, pid_t pid, uint64_t *ret_start_ticks,
                          struct proc_status *ret);

/* The same, for its real uid only. */
int process_lookup_owner(const char *proc_root, pid_t pid, uint64_t *ret_start_ticks,
                         int64_t *ret_uid);
