/* Signals to processes, not to pids: one that has gone and whose number is another's by now is left
 * alone. */
#pragma once

#include <sys/types.h>

struct signal_target {
    pid_t pid;
    double born; /* seconds on the boot clock; unknown (NAN): it is not sent anything */
};

/* 0, -ESRCH (it is gone), -EPERM or another negative errno. */
int signal_send(const struct signal_target *target, int number);
