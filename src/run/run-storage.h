/* Stores a run: through a daemon if there is one, otherwise directly ("here").
 *
 * If the daemon goes away during the run, the run is stored here under the same run_id; a daemon
 * that comes back gets it again. The store has one run in any case. Ticks are held back until the
 * daemon has answered, so that none is missing.
 *
 * Forks, execs and exits are stored by one side from the first to the last, or here after the
 * daemon has gone: events seen by both sides could not be matched. So a daemon that missed the
 * beginning of the run stores only samples, and the events are stored here. */
#pragma once

#include <uv.h>

#include "run/job-run.h"
#include "run/run-backend.h"
#include "writer/store-writer.h"

struct run_storage;

/* The result of storing a run. */
struct run_storage_end {
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* its name; "": as requested */
    const char *cause;                      /* from a daemon; NULL: use the summary's */
    struct process_event_list chain;        /* of failures, for this cause */
};

/* Begins to store a run; `started` and `pid` are those of the command. The options must outlive the
 * storage. Without a loop (NULL), no daemon is used. Returns NULL without memory. */
struct run_storage *run_storage_begin(uv_loop_t *loop, const struct job_run_options *options,
                                      const struct moment *started, pid_t pid);

/* Returns whether a daemon stores the run. */
bool run_storage_has_daemon(const struct run_storage *storage);

/* Returns whether forks, execs and exits are stored here. */
bool run_storage_keeps_events(const struct run_storage *storage);

/* Returns whether no daemon stores the run and no offer is waiting for an answer. */
bool run_storage_is_local(const struct run_storage *storage);

/* Stores a tick, and takes ownership of the box. */
void run_storage_tick(struct run_storage *storage, struct tick_box *box);
/* Reports a signal that was sent to a process of the run. */
void run_storage_signalled(struct run_storage *storage, pid_t pid,
                           const struct process_event *sent);

/* Between hold and release nothing is written. */
void run_storage_hold(struct run_storage *storage);
void run_storage_release(struct run_storage *storage);

/* Stores the end of the run and frees the storage. `last` is the last tick (NULL: none), which this
 * function frees; `summary` has the figures (NULL: none). Texts of *ret are placed in `arena`. */
void run_storage_finish(struct run_storage *storage, struct tick_box *last,
                        const struct run_summary *summary, double ended_at, struct arena *arena,
                        struct run_storage_end *ret);
