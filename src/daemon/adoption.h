/* After a restart: the runs that were going on and still are, found again by the identity of their
 * processes. */
#pragma once

struct daemon;

/* How many were adopted. What cannot be read is not adopted, which is logged. */
unsigned adopt_runs(struct daemon *daemon);
