/* Who failed first: the chain of failures that led to the end of a run (model/cause.h), found as
 * the events of its processes come.
 *
 * When a process fails, one of its children may have been the reason. That is claimed only where
 * what was seen supports it:
 *
 * - A shell ends with the status of its last command: of its children that failed, the last whose
 *   status it has (or 128 + the signal that killed it) is the reason, unless it has started others
 *   since. Then only a status of 2 or more, which is hardly there by chance, is taken for that of
 *   an earlier child (`make; s=$?; rm -r tmp; exit $s`). One that crashed, or was killed for good
 *   by another than the shell itself, is the reason too if the shell failed at once with any
 *   status: that much is hardly done on purpose (`./work || exit 1`). A process whose program
 *   nobody has seen is taken for a shell.
 * - A program that is there to run others makes its own status of their failures (make 2, cc 1,
 *   xargs 123): the first child that failed and that nothing was started after is the reason, if
 *   the process ended at once when the last of its children had. Of any other program, which may
 *   have run a child to learn its status (`grep -q`), such a child is the reason only if it has
 *   the status of its parent, or crashed, or was killed for good by another than its parent. One
 *   that takes longer has come to its end by itself, unless it has the status of a child that
 *   failed, and that is 2 or more.
 * - One that was killed was killed by the signal.
 *
 * So a failure that was handled is no cause: whoever goes on to start another process has dealt
 * with it. No clock, no I/O. What is remembered is bounded: the living, a few failures of the
 * children of each, and what led to these. */
#pragma once

#include <sys/types.h>

#include "base/map.h"
#include "model/event.h"

/* Links of a chain that are kept: the first ones, and the last. */
#define FAILURE_CHAIN_MAX 16
/* First processes of runs that failed: the latest of all, until their runs are forgotten. */
#define FAILURE_CHAINS_ENDED_MAX 256
/* Processes that failed while children of them seemed to live: the latest of all. */
#define FAILURE_CHAINS_EARLY_MAX 256

struct failure;
struct living;

/* Zero-initialised is empty and valid. */
struct failure_chains {
    struct map living;                               /* pid → struct living */
    struct failure *ended[FAILURE_CHAINS_ENDED_MAX]; /* a ring */
    size_t ended_count;                              /* that there have been */
    struct living
        *early[FAILURE_CHAINS_EARLY_MAX]; /* a ring; their children's ends may come later */
    size_t early_count;                   /* that there have been */
    uint64_t order;                       /* of events */
};

void failure_chains_done(struct failure_chains *chains);

/* Events in their order, with the command lines that are known; those that are no process's are
 * passed over. The end of a child may come after that of its parent: which was first is decided by
 * their timestamps, because ends can come from two sources while the kernel collector takes over.
 * Without memory what was known is forgotten, see failure_chains_distrust(). */
void failure_chains_note(struct failure_chains *chains, const struct process_event *event);

/* What a member that lives is, by what it has executed; NULL: not known. Until the next event. */
const char *failure_chains_command(const struct failure_chains *chains, int64_t pid);

/* Events were lost: of what lives now, no chain is known any more. */
void failure_chains_distrust(struct failure_chains *chains);

/* The run is over: nothing is remembered of it. */
void failure_chains_forget_run(struct failure_chains *chains, const char *run_id);

/* The chain that ends with a first process of the run that ended so: with `exit_code`, or by
 * `signal_num`, whichever is known; `pid` 0: whichever of them, the last, if none was started after
 * it. The list and its texts are placed in `arena`. 0, -ENOENT (no such end was seen) or -ENOMEM.
 */
int failure_chains_find(const struct failure_chains *chains, const char *run_id, pid_t pid,
                        int64_t exit_code, int64_t signal_num, struct arena *arena,
                        struct process_event_list *ret);
