/* sys/kernel/ns_last_pid: the pid last assigned to a process or thread in our pid namespace or one
 * below it.
 *
 * While it does not change, no process was created, with two exceptions: a process that already had
 * its pid but was not listed yet, and one whose creator chose the pid (clone3 with set_tid, or root
 * writing to this file). */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Returns 0 or -EBADMSG. */
int last_pid_parse(const char *bytes, size_t length, pid_t *ret);

/* Returns a descriptor that the caller owns, or a negative errno: not every kernel has the file. */
int last_pid_open(int root_fd);
/* Returns 0 or a negative errno. */
int last_pid_read(int fd, pid_t *ret);
