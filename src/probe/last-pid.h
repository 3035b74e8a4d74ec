/* sys/kernel/ns_last_pid: the pid that was given out last, in our pid namespace or one within it,
 * to a process or a thread.
 *
 * While it stays the same hardly anybody was born: only one that had its pid already and was not
 * yet listed, or whose pid was chosen by whoever made it (clone3 with set_tid, or root's own number
 * written there). */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* 0 or -EBADMSG. */
int last_pid_parse(const char *bytes, size_t length, pid_t *ret);

/* A descriptor to be kept, or a negative errno: not every kernel has it. */
int last_pid_open(int root_fd);
/* 0 or a negative errno. */
int last_pid_read(int fd, pid_t *ret);
