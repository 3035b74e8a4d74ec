/* A tick in one piece: a snapshot, what happened since the one before, and every text of it, so
 * that it can be handed from thread to thread. */
#pragma once

#include <stdbool.h>

#include "model/syscall-profile.h"
#include "model/tick.h"

/* Half a megabyte of events. A build makes some thousand in a second: whoever has filled a box
 * hands it on without a snapshot and begins the next. */
#define TICK_EVENTS_MAX 4096

/* The run and the step that an event belongs to. The texts are copied when an event is added. */
struct event_owner {
    const char *run_id; /* NULL: no run */
    const char *job_id;
    int64_t uid; /* of the run; INT_UNKNOWN: not known */
    int64_t sheet_num;
};

#define EVENT_OWNER_NONE ((struct event_owner){.uid = INT_UNKNOWN, .sheet_num = INT_UNKNOWN})

/* What a tracer has told of the process that it was attached to, and of those that this forked. */
struct traced {
    pid_t pid;
    uint64_t start_ticks;
    const char *run_id; /* NULL: it was of no run */
    const struct syscall_profile *calls;
};

struct tick_box {
    struct tick_box *next; /* for the list that it is in */
    struct tick tick;      /* what is in it, as the store takes it */
    size_t event_capacity;
    size_t gap_capacity;
    size_t trace_capacity;
    uint64_t lost_events; /* that found no room, or no memory */
    size_t signals;       /* events of that type, one of which may turn out to have been a kill */

    struct arena arena; /* holds the texts of events and gaps that the snapshot does not hold */
    const char *run_id; /* of the last event, shared by the next ones of the same run */
    const char *job_id;
};

struct tick_box *tick_box_new(void);
void tick_box_free(struct tick_box *box);
void tick_box_freep(struct tick_box **box);

bool tick_box_is_full(const struct tick_box *box);

/* All return the event, for more to be filled in, until the next is added; NULL if there was no
 * room or memory for it, which is counted. `timestamp` is the wall clock. */
struct process_event *tick_box_add_event(struct tick_box *box, struct event_owner owner,
                                         enum event_type type, pid_t pid, double timestamp);
struct process_event *tick_box_add_spawn(struct tick_box *box, struct event_owner owner, pid_t pid,
                                         int64_t ppid, double timestamp);
/* A process ended: an exit, or a kill, which then stands for the signal that did it as well, if
 * that is in the box. */
struct process_event *tick_box_add_end(struct tick_box *box, struct event_owner owner, pid_t pid,
                                       int wait_status, double timestamp);
/* A signal that `sent` tells the number and the sender of, its texts copied; part of the kill, if
 * that is in the box already. */
struct process_event *tick_box_add_signal(struct tick_box *box, struct event_owner owner, pid_t pid,
                                          const struct process_event *sent, double timestamp);

/* The end of a process, if it is in the box; else NULL. */
struct process_event *tick_box_find_end(const struct tick_box *box, pid_t pid);

/* Births, programs and ends: what the parent of a run sees as well as a daemon does. The daemon may
 * be the only one that sees signals, and clients report steps to it. */
bool event_is_of_life(const struct process_event *event);

/* Removes the events for which `is_unwanted` says so. */
void tick_box_remove_events(struct tick_box *box,
                            bool (*is_unwanted)(void *context, const struct process_event *event),
                            void *context);

/* Leaves births, programs and ends, and the gaps in them, for a run whose samples another stores.
 */
void tick_box_keep_lives(struct tick_box *box, const char *run_id);

/* A copy, with `details` as they are. 0 or -ENOMEM. */
int tick_box_add_trace(struct tick_box *box, const struct traced *traced, const char *details);
/* A copy, its text included. 0 or -ENOMEM. */
int tick_box_add_gap(struct tick_box *box, const struct gap *gap);
