/* Stores a run: through a daemon if there is one, otherwise directly.
 *
 * If the daemon goes away during the run, the run is stored here under the same run_id; a daemon
 * that comes back gets it again. The store shows one run. Ticks are held back until the daemon has
 * answered, so that none is missing either way.
 *
 * Forks, execs and exits are stored by one side from the first to the last, or here after the
 * daemon has gone: events seen by both could not be matched. So a daemon that missed the beginning
 * stores samples only, and the events are stored here. */
#pragma once

#include <uv.h>

#include "run/job-run.h"
#include "run/run-backend.h"
#include "writer/store-writer.h"

struct run_storage;

/* What the daemon or the store reported of the run. */
struct run_storage_end {
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* its name; "": as requested */
    const char *cause;                      /* from a daemon; NULL: use the summary's */
    struct process_event_list chain;        /* of failures, for this cause */
};

/* `started` and `pid` are the command's. The options must outlive the storage. Without a loop
 * (NULL), no daemon is asked. NULL without memory. */
struct run_storage *run_storage_begin(uv_loop_t *loop, const struct job_run_options *options,
                                      const struct moment *started, pid_t pid);

/* Whether a daemon stores it. */
bool run_storage_has_daemon(const struct run_storage *storage);

/* Whether forks, execs and exits are stored here. */
bool run_storage_keeps_events(const struct run_storage *storage);

/* Whether no daemon stores it or has been asked to. */
bool run_storage_is_local(const struct run_storage *storage);

/* Takes ownership of the box. */
void run_storage_tick(struct run_storage *storage, struct tick_box *box);
void run_storage_signalled(struct run_storage *storage, pid_t pid,
                           const struct process_event *sent);

/* Nothing is written between the two. */
void run_storage_hold(struct run_storage *storage);
void run_storage_release(struct run_storage *storage);

/* The run is over: `last` is its last tick (NULL: none), `summary` its figures (NULL: none). Texts
 * of *ret are placed in `arena`. Frees the storage. */
void run_storage_finish(struct run_storage *storage, struct tick_box *last,
                        const struct run_summary *summary, double ended_at, struct arena *arena,
                        struct run_storage_end *ret);
