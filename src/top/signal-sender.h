/* Sends a signal to a process, identified by pid and start time: if the process has ended and its
 * pid was reused, no signal is sent. */
#pragma once

#include <sys/types.h>

struct signal_target {
    pid_t pid;
    double born; /* start time, seconds on the boot clock; unknown (NAN): no signal is sent */
};

/* Returns 0, -ESRCH (the process is gone), -EPERM or another negative errno. */
int signal_send(const struct signal_target *target, int number);
