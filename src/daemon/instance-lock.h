/* One daemon per place: a file with the daemon's pid that it keeps locked while it lives. */
#pragma once

#include <sys/types.h>

/* Returns 0, -EWOULDBLOCK if another process holds the lock (`ret_holder` is its pid, 0 if
 * unknown), or another negative errno. Closing the descriptor releases the lock. */
int instance_lock_take(const char *path, int *ret_fd, pid_t *ret_holder);
