/* A lock that allows only one daemon per socket and per database: a file with the daemon's pid,
 * which the daemon keeps locked while it runs. */
#pragma once

#include <sys/types.h>

/* Takes the lock and writes the own pid into the file. Returns 0, -EWOULDBLOCK if another process
 * holds the lock (`ret_holder` is its pid, 0 if unknown), or another negative errno. Closing the
 * descriptor releases the lock. */
int instance_lock_take(const char *path, int *ret_fd, pid_t *ret_holder);
