/* A tick with all its texts, so that it can be handed from thread to thread: a snapshot, and the
 * events since the previous one. */
#pragma once

#include <stdbool.h>

#include "model/syscall-profile.h"
#include "model/tick.h"

/* Half a megabyte of events; a build makes some thousand in a second. A full box is passed on
 * without a snapshot. */
#define TICK_EVENTS_MAX 4096

/* The run and the step that an event belongs to. The texts are copied when an event is added. */
struct event_owner {
    const char *run_id; /* NULL: no run */
    const char *job_id;
    int64_t uid; /* of the run; INT_UNKNOWN: unknown */
    int64_t sheet_num;
};

#define EVENT_OWNER_NONE ((struct event_owner){.uid = INT_UNKNOWN, .sheet_num = INT_UNKNOWN})

/* What a tracer counted for its process and the forks of that. */
struct traced {
    pid_t pid;
    uint64_t start_ticks;
    const char *run_id; /* NULL: none */
    const struct syscall_profile *calls;
};

struct tick_box {
    struct tick_box *next; /* in a list of boxes */
    struct tick tick;      /* the content */
    size_t event_capacity;
    size_t gap_capacity;
    size_t trace_capacity;
    uint64_t lost_events; /* without room or memory */
    size_t signals;       /* signal events, one of which may become a kill */

    struct arena arena; /* owns the texts of events and gaps that the snapshot does not own */
    const char *run_id; /* of the last event, shared by later events of the same run */
    const char *job_id;
};

struct tick_box *tick_box_new(void);
void tick_box_free(struct tick_box *box);
void tick_box_freep(struct tick_box **box);

bool tick_box_is_full(const struct tick_box *box);

/* These return the event, to be completed until the next is added; NULL without room or memory,
 * which is counted. `timestamp` is the wall clock. */
struct process_event *tick_box_add_event(struct tick_box *box, struct event_owner owner,
                                         enum event_type type, pid_t pid, double timestamp);
struct process_event *tick_box_add_spawn(struct tick_box *box, struct event_owner owner, pid_t pid,
                                         int64_t ppid, double timestamp);
/* A process ended: an exit, or a kill, which replaces the signal that caused it, if that is in the
 * box. */
struct process_event *tick_box_add_end(struct tick_box *box, struct event_owner owner, pid_t pid,
                                       int wait_status, double timestamp);
/* Adds a signal with the number and sender of `sent` (copied); part of the kill, if that is in the
 * box already. */
struct process_event *tick_box_add_signal(struct tick_box *box, struct event_owner owner, pid_t pid,
                                          const struct process_event *sent, double timestamp);

/* The end of a process in the box; NULL: none. */
struct process_event *tick_box_find_end(const struct tick_box *box, pid_t pid);

/* Forks, execs and exits: the parent of a run sees these as well as a daemon does. Only the daemon
 * may see signals, and clients report steps to it. */
bool event_is_lifecycle(const struct process_event *event);

/* Removes the events for which `is_unwanted` returns true. */
void tick_box_remove_events(struct tick_box *box,
                            bool (*is_unwanted)(void *context, const struct process_event *event),
                            void *context);

/* Keeps only forks, execs and exits, and the gaps in them, for a run whose samples another session
 * stores. */
void tick_box_keep_lifecycle(struct tick_box *box, const char *run_id);

/* Copies the counts; `details` is not copied. 0 or -ENOMEM. */
int tick_box_add_trace(struct tick_box *box, const struct traced *traced, const char *details);
/* Copies the gap and its text. 0 or -ENOMEM. */
int tick_box_add_gap(struct tick_box *box, const struct gap *gap);
