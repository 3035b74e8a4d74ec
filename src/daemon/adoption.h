/* After a restart of the daemon, adopts runs whose processes are still alive. Processes are
 * identified by pid and start time. */
#pragma once

struct daemon;

/* Adopts all such runs and returns their number. If the database cannot be read, logs why. */
unsigned adopt_runs(struct daemon *daemon);
