/* How the daemon is doing, for daemon.status. */
#pragma once

#include "model/daemon-status.h"

struct daemon;

/* Texts and lists are placed in `arena`, or are the daemon's. 0 or -ENOMEM. */
int status_fill(struct daemon *daemon, struct arena *arena, struct daemon_status *ret);
