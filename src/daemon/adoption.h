/* Adopts runs after a restart of the daemon: those whose processes are still there, found by pid
 * and start time. */
#pragma once

struct daemon;

/* Returns the number of adopted runs. Runs that cannot be read are logged and skipped. */
unsigned adopt_runs(struct daemon *daemon);
