/* The cause of a run's end as text, made from the chain of failures that led to it.
 *
 * A chain begins with the process that failed first and ends with the first process of the run;
 * each process is the parent of the one before. A link states how its process ended: an exit with a
 * status, a kill with its signal and sender, or an `oom` if the kernel killed it because memory ran
 * out. A process that failed without a failed child is a chain of one. explain/failure-chain builds
 * chains. */
#pragma once

#include "model/event.h"

/* The same limit as for a cause that a scheduler reports. */
#define CAUSE_MAX_BYTES 500

/* Formats a chain: "exit status 3"; "killed by SIGTERM, sent by pid 812 (timeout 5 make)"; "exit
 * status 2: cc1 (4711) killed by SIGKILL → cc exited 1 → make exited 2". Writes "" for an empty
 * chain, or if memory runs out. */
void cause_format(const struct process_event_list *chain, char into[static CAUSE_MAX_BYTES + 1]);
