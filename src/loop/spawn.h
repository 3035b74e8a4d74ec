/* The one spawner. The child finds everything as if its parent's parent had started it: stdin, the
 * terminal, the process group, signal dispositions and mask, umask, limits, environment. */
#pragma once

#include <sys/types.h>

#include "loop/signals.h"

/* Starts argv[0] (looked up in PATH) and waits until it has been executed. 0; -ECHILD with
 * *ret_exec_errno set if the program could not be executed (the child is reaped); or another
 * negative errno if no child could be made. */
int spawn_command(char *const argv[], const struct signal_state *signals, pid_t *ret_pid,
                  int *ret_exec_errno);
