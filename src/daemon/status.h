/* The state of the daemon, for daemon.status. */
#pragma once

#include "model/daemon-status.h"

struct daemon;

/* Fills in all figures. Texts and lists are placed in `arena` or belong to the daemon. Returns 0 or
 * -ENOMEM. */
int status_fill(struct daemon *daemon, struct arena *arena, struct daemon_status *ret);
