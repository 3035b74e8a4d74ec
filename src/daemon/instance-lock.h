/* One daemon a place: a file that the daemon holds locked as long as it lives, with its pid in it.
 */
#pragma once

#include <sys/types.h>

/* 0; -EWOULDBLOCK: another process holds it, `ret_holder` is its pid (0: it is not known); or
 * another negative errno. The lock goes with the descriptor. */
int instance_lock_take(const char *path, int *ret_fd, pid_t *ret_holder);
