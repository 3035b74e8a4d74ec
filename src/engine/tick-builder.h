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
struct tick_builder {
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

void tick_builder_done(struct tick_builder *builder);

/* The box of the next tick; NULL if there is no memory. */
struct tick_box *tick_builder_box(struct tick_builder *builder);
/* Hands the box on, with the snapshot that ends it (NULL: none). Does nothing without a box. */
void tick_builder_finish(struct tick_builder *builder, struct snapshot *snapshot);

/* All of these do nothing if no events are wanted; what there is no memory for is counted. */
void tick_builder_add_lifecycle(struct tick_builder *builder, const struct member *member,
                                const struct lifecycle_event *event, double timestamp);
void tick_builder_add_spawn(struct tick_builder *builder, struct event_owner owner, pid_t pid,
                            int64_t ppid, double timestamp);
/* The end of a process, the one who killed it named; NULL: it is not in the box. */
struct process_event *tick_builder_add_end(struct tick_builder *builder, struct event_owner owner,
                                           pid_t pid, int wait_status, double timestamp);
void tick_builder_add_signal(struct tick_builder *builder, struct event_owner owner, pid_t pid,
                             const struct process_event *sent, double timestamp);
/* The kernel kills a process for its memory, of a run or of none. */
void tick_builder_add_oom(struct tick_builder *builder, struct event_owner owner,
                          const struct lifecycle_event *event, double timestamp);
/* A step began or ended, as a conductor tells: a spawn or an exit of `pid` (0: none). */
void tick_builder_add_step(struct tick_builder *builder, struct event_owner owner,
                           enum event_type type, pid_t pid, int64_t exit_code, const char *details,
                           double timestamp);

/* A tracer has told what a process called: entered into its end, if that is in the box; and handed
 * on with the box, for what was handed on before. */
void tick_builder_add_trace(struct tick_builder *builder, const struct traced *traced);

/* Without memory the gap is not noted, and the next one tells of it. */
void tick_builder_add_gap(struct tick_builder *builder, const struct gap *gap);
/* Forgets what only holds if no event is missing: some are. */
void tick_builder_distrust(struct tick_builder *builder);
/* Events that were lost since the last call. */
uint64_t tick_builder_take_lost(struct tick_builder *builder);
