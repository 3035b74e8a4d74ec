/* The cause of a run's end as text, made from the chain of failures that led to it.
 *
 * A chain begins with the process that failed first and ends with the first process of the run;
 * each process is the parent of the one before. A link states how its process ended: an exit with a
 * status, a kill with its signal and sender, or an `oom` if the kernel killed it because memory ran
 * out. A process that failed without a failed child is a chain of one. explain/failure-chain builds
 * chains, and chains of processes that failed on the way: it is not proven that they led to the
 * end. */
#pragma once

#include "base/text.h"
#include "model/event.h"

/* How all output states that the kernel killed a process because memory ran out. Stored causes
 * contain it, and code compares them with causes that it formats again. */
#define OOM_KILL_TEXT "killed by the kernel for memory (OOM)"

/* The same limit as for a cause that a scheduler reports. */
#define CAUSE_MAX_BYTES 500

/* Formats a chain: "exit status 3"; "killed by SIGTERM, sent by pid 812 (timeout 5 make)"; "exit
 * status 2: cc1 (4711) killed by SIGKILL → cc exited 1 → make exited 2"; "exit status 5; failed on
 * the way: ls (4711) exited 2". Writes "" for an empty chain, or if memory runs out. */
void cause_format(const struct process_event_list *chain,
                  const struct process_event_list *on_the_way,
                  char into[static CAUSE_MAX_BYTES + 1]);

/* Returns whether the cause was made from this chain and so contains it. Otherwise it came from a
 * scheduler. */
bool cause_is_of_chain(const char *cause, const struct process_event_list *chain);

/* Appends what the cause lacks, and how to have it: "; pid 815 ended before its name was
 * read" for the first process of the chain without a name, and ", sender unknown" for a signal
 * whose sender is unknown, unless processes or the kernel raise such a signal themselves.
 * `collector` is that of the run. The hint is not part of the stored cause. */
void cause_append_hint(const char *cause, const struct process_event_list *chain,
                       const char *collector, struct text *out);
