/* A tick box: a tick (a snapshot, and the events since the previous one) that owns all its texts,
 * so that one thread can pass it to another. It holds a reference to its snapshot, which is
 * finished. */
#pragma once

#include <stdbool.h>

#include "model/syscall-profile.h"
#include "model/tick.h"

/* Half a megabyte of events; a build makes some thousand in a second. A full box is passed on at
 * once, without a snapshot. */
#define TICK_EVENTS_MAX 4096

/* The run and the step that an event belongs to. The texts are copied when an event is added. */
struct event_owner {
    const char *run_id; /* NULL: no run */
    const char *job_id;
    int64_t uid; /* of the run; INT_UNKNOWN: unknown */
    int64_t sheet_num;
};

#define EVENT_OWNER_NONE ((struct event_owner){.uid = INT_UNKNOWN, .sheet_num = INT_UNKNOWN})

/* The system calls that a tracer counted for the process that it traced, and for the processes that
 * this one forked while it was traced. */
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

/* Each of the next functions adds an event and returns it, so that the caller can complete it
 * before it adds another. Without room or memory they return NULL and count the event as lost.
 * `timestamp` is the wall clock. */
struct process_event *tick_box_add_event(struct tick_box *box, struct event_owner owner,
                                         enum event_type type, pid_t pid, double timestamp);
struct process_event *tick_box_add_spawn(struct tick_box *box, struct event_owner owner, pid_t pid,
                                         int64_t ppid, double timestamp);
/* Adds the end of a process: an exit or a kill. A kill replaces the signal that caused it, if that
 * is in the box. */
struct process_event *tick_box_add_end(struct tick_box *box, struct event_owner owner, pid_t pid,
                                       int wait_status, double timestamp);
/* Adds a signal with the number and sender of `sent`, which are copied. If the box already has the
 * kill of the process, adds the sender to the kill instead. */
struct process_event *tick_box_add_signal(struct tick_box *box, struct event_owner owner, pid_t pid,
                                          const struct process_event *sent, double timestamp);

/* Returns the event of the end of a process, or NULL if the box has none. */
struct process_event *tick_box_find_end(const struct tick_box *box, pid_t pid);

/* Returns whether the event is a fork, exec, exit or kill of a process. `sonde run` can store these
 * events of its run itself. With a daemon, only the daemon stores the others: signals, OOM kills,
 * and steps, which clients report to it. */
bool event_is_lifecycle(const struct process_event *event);

/* Removes the events for which `is_unwanted` returns true. */
void tick_box_remove_events(struct tick_box *box,
                            bool (*is_unwanted)(void *context, const struct process_event *event),
                            void *context);

/* Keeps only forks, execs and exits, and the gaps in them, for a run whose snapshots another
 * session stores (see tick.beside_run). */
void tick_box_keep_lifecycle(struct tick_box *box, const char *run_id);

/* Adds a copy of the counts; `details` is not copied. Returns 0 or -ENOMEM. */
int tick_box_add_trace(struct tick_box *box, const struct traced *traced, const char *details);
/* Adds a copy of the gap and its text. Returns 0 or -ENOMEM. */
int tick_box_add_gap(struct tick_box *box, const struct gap *gap);
