/* Why a run ended as it did: the chain of failures that led to its end, in words.
 *
 * A chain begins with the process that failed first and ends with the first process of the run,
 * each the parent of the one before. Each link is how that process ended: an exit with a status, a
 * kill with its signal and its sender, or an `oom` if the kernel killed it for memory. A process
 * that ended of its own accord is a chain of one. explain/failure-chain finds it. */
#pragma once

#include "model/event.h"

/* As long as a conductor's own words may be. */
#define CAUSE_MAX_BYTES 500

/* "exit status 3"; "killed by SIGTERM, sent by pid 812 (timeout 5 make)"; "exit status 2: cc1
 * (4711) killed by SIGKILL → cc exited 1 → make exited 2". "" of an empty chain, or if there is no
 * memory. */
void cause_format(const struct process_event_list *chain, char into[static CAUSE_MAX_BYTES + 1]);

/* How one of them ended: "exited 3", "killed by SIGSEGV, core dumped". Errors are the buffer's. */
struct text;
void cause_append_end(const struct process_event *end, struct text *out);
