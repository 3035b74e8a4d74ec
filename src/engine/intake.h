/* What happens to the processes of runs between two snapshots, gathered into the box of the next
 * tick: births, ends, signals, steps, gaps. */
#pragma once

#include "engine/command-cache.h"
#include "engine/sent-signals.h"
#include "explain/failure-chain.h"
#include "jobs/registry.h"
#include "model/tick-box.h"
#include "probe/lifecycle.h"

/* Zero-initialised is empty and valid, but for `hand_over`. */
struct intake {
    bool wants_events;
    struct tick_box *box; /* what belongs to the next tick; NULL: nothing yet */
    struct command_cache commands;
    struct sent_signals sent;
    struct failure_chains deaths; /* by the boxes that were handed on */
    uint64_t lost_events;         /* that there was not even a box for */

    /* A box that is complete: the receiver's. */
    void (*hand_over)(void *context, struct tick_box *box);
    void *context;
};

void intake_done(struct intake *intake);

/* The box of the next tick; NULL if there is no memory. */
struct tick_box *intake_box(struct intake *intake);
/* Hands the box on, with the snapshot that ends it (NULL: none). Does nothing without a box. */
void intake_hand_over(struct intake *intake, struct snapshot *snapshot);

/* All of these do nothing if no events are wanted; what there is no memory for is counted. */
void intake_lifecycle(struct intake *intake, const struct member *member,
                      const struct lifecycle_event *event, double timestamp);
void intake_spawn(struct intake *intake, struct event_owner owner, pid_t pid, int64_t ppid,
                  double timestamp);
/* The end of a process, the one who killed it named; NULL: it is not in the box. */
struct process_event *intake_end(struct intake *intake, struct event_owner owner, pid_t pid,
                                 int wait_status, double timestamp);
void intake_signal(struct intake *intake, struct event_owner owner, pid_t pid,
                   const struct process_event *sent, double timestamp);
/* The kernel kills a process for its memory, of a run or of none. */
void intake_oom(struct intake *intake, struct event_owner owner,
                const struct lifecycle_event *event, double timestamp);
/* A step began or ended, as a conductor tells: a spawn or an exit of `pid` (0: none). */
void intake_step(struct intake *intake, struct event_owner owner, enum event_type type, pid_t pid,
                 int64_t exit_code, const char *details, double timestamp);

/* A tracer has told what a process called: entered into its end, if that is in the box; and handed
 * on with the box, for what was handed on before. */
void intake_traced(struct intake *intake, const struct traced *traced);

/* Without memory the gap is not noted, and the next one tells of it. */
void intake_gap(struct intake *intake, const struct gap *gap);
/* Forgets what only holds if no event is missing: some are. */
void intake_distrust(struct intake *intake);
/* Events that were lost since the last call. */
uint64_t intake_take_lost(struct intake *intake);
