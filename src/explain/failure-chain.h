/* Finds why a run failed: the chain of failures that led to its end (model/cause.h), from the
 * events of its processes.
 *
 * When a process fails, one of its children may have been the reason; failure-reason.h has the
 * rules. A failure that was handled is no cause: a process that starts another one after the
 * failure of a child has handled it, and so has a process that executes another program. A child
 * that failed on the way, but is not proven to be the reason, is kept beside the chain. No clock,
 * no I/O. The memory is bounded: the living processes, a few failed children of each, and the
 * chains of these.
 */
#pragma once

#include <sys/types.h>

#include "base/map.h"
#include "model/event.h"

/* Length of a chain: the first links and the last one are kept. */
#define FAILURE_CHAIN_MAX 16
/* Failed first processes of runs: the latest ones, until their runs end. */
#define FAILURE_CHAINS_ENDED_MAX 256
/* Processes that failed before the ends of their children were reported: the latest ones. */
#define FAILURE_CHAINS_EARLY_MAX 256

struct failure;
struct living;

/* Zero-initialised is empty and valid. */
struct failure_chains {
    struct map living;                               /* pid → struct living */
    struct failure *ended[FAILURE_CHAINS_ENDED_MAX]; /* a ring */
    size_t ended_count;                              /* number ever added */
    struct living *early[FAILURE_CHAINS_EARLY_MAX];  /* ended before their children; a ring */
    size_t early_count;                              /* number ever added */
    uint64_t order;                                  /* number of the last event */
    unsigned redactions;                             /* calls of failure_chains_redact() */
};

void failure_chains_done(struct failure_chains *chains);

/* Adds an event, in order, with its command line if known; ignores events without a process. The
 * end of a child may come after that of its parent, because ends can come from two sources while
 * the kernel collector takes over: their timestamps decide which was first. If memory runs out,
 * calls failure_chains_drop_living(). */
void failure_chains_add(struct failure_chains *chains, const struct process_event *event);

/* Returns the command line of a living process by its last exec; NULL: unknown. Valid until the
 * next event. */
const char *failure_chains_command(const struct failure_chains *chains, int64_t pid);

/* Call it when events were lost: drops the data about all living processes. These get no chain. */
void failure_chains_drop_living(struct failure_chains *chains);

/* Call it when a run is over: drops all data about it. */
void failure_chains_forget_run(struct failure_chains *chains, const char *run_id);

/* Redacts the command lines of living and failed processes with other words (model/redact.h).
 * Without memory a text becomes unknown. */
void failure_chains_redact(struct failure_chains *chains, const struct text_list *words);

/* Finds the chain that ends with a first process of the run that ended with `exit_code` or by
 * `signal_num`, whichever is known. `pid` 0: the last one, if none was started after it.
 * `ret_on_the_way` is the chain of a child of the first failed process of the chain that failed on
 * the way, but is not proven to be its reason; empty: none. The lists and their texts are placed in
 * `arena`. Returns 0, -ENOENT (no such end) or -ENOMEM. */
int failure_chains_find(const struct failure_chains *chains, const char *run_id, pid_t pid,
                        int64_t exit_code, int64_t signal_num, struct arena *arena,
                        struct process_event_list *ret_chain,
                        struct process_event_list *ret_on_the_way);
