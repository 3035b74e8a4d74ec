/* Builds the box of the next tick: the forks, execs, exits, signals, steps and gaps between two
 * snapshots. A box that is complete waits in the builder until the engine takes it. Command lines
 * are redacted when they are added. */
#pragma once

#include "engine/command-cache.h"
#include "engine/sent-signals.h"
#include "explain/failure-chain.h"
#include "jobs/registry.h"
#include "model/redact.h"
#include "model/tick-box.h"
#include "probe/lifecycle.h"

/* A zero-initialised struct is empty and valid. */
struct tick_builder {
    bool wants_events;
    struct redaction redaction;
    struct tick_box *box;      /* of the next tick; NULL: nothing happened yet */
    struct tick_box *complete; /* oldest first; NULL: none */
    struct tick_box *newest;   /* the last of the complete ones */
    struct command_cache commands;
    struct sent_signals sent;
    struct failure_chains failures; /* as of the complete boxes */
    uint64_t lost_events;           /* without memory for a box */
};

void tick_builder_done(struct tick_builder *builder);

/* Sets the words of redaction (NULL: none), which must outlive the builder or the next call. Other
 * words redact what the builder holds anew, also complete boxes; without memory a text becomes
 * unknown. Returns whether they are others. */
bool tick_builder_redact(struct tick_builder *builder, const struct text_list *words);

/* Returns the box of the next tick, which the builder owns; NULL without memory. */
struct tick_box *tick_builder_box(struct tick_builder *builder);
/* Completes the box with the finished snapshot that ends it (NULL: none), whose reference the box
 * takes over. Without a box it does nothing. */
void tick_builder_finish(struct tick_builder *builder, const struct snapshot *snapshot);
/* Returns the oldest complete box, which is the caller's; NULL if there is none. */
struct tick_box *tick_builder_take(struct tick_builder *builder);

/* The following functions add events to the box of the next tick. They do nothing if `wants_events`
 * is false. Without memory an event is counted as lost; a box that is full is completed without a
 * snapshot. */
void tick_builder_add_lifecycle(struct tick_builder *builder, const struct member *member,
                                const struct lifecycle_event *event, double timestamp);
void tick_builder_add_spawn(struct tick_builder *builder, struct event_owner owner, pid_t pid,
                            int64_t ppid, double timestamp);
/* Adds the end of a process, with the sender of the signal that killed it. Returns the event, valid
 * until the next one is added; NULL if it was not added. */
struct process_event *tick_builder_add_end(struct tick_builder *builder, struct event_owner owner,
                                           pid_t pid, int wait_status, double timestamp);
/* `sent` is redacted already. */
void tick_builder_add_signal(struct tick_builder *builder, struct event_owner owner, pid_t pid,
                             const struct process_event *sent, double timestamp);
/* Adds an OOM kill of a process, whether it belongs to a run or not. */
void tick_builder_add_oom(struct tick_builder *builder, struct event_owner owner,
                          const struct lifecycle_event *event, double timestamp);
/* Adds the start or the end of a step that a scheduler reports, as a spawn or an exit of `pid` (0:
 * none). */
void tick_builder_add_step(struct tick_builder *builder, struct event_owner owner,
                           enum event_type type, pid_t pid, int64_t exit_code, const char *details,
                           double timestamp);

/* Adds the system calls of a process that a tracer reports: to the event of its end, if the box has
 * it, and to the box, for samples and ends that were stored before. */
void tick_builder_add_trace(struct tick_builder *builder, const struct traced *traced);

/* Adds a gap. Without memory it is dropped. */
void tick_builder_add_gap(struct tick_builder *builder, const struct gap *gap);
/* Notes that events were lost: drops everything that is only valid if none was. */
void tick_builder_mark_incomplete(struct tick_builder *builder);
/* Returns the number of events lost since the last call. */
uint64_t tick_builder_take_lost(struct tick_builder *builder);
