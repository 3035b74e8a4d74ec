/* Where a run is kept: by a daemon if one is there, else in the store by ourselves.
 *
 * A daemon that goes away in mid-run is no harm: from then on the run is stored here, under the
 * same run_id, and a daemon that comes back gets it again. The store shows one run. Ticks that are
 * taken while a daemon has not answered yet are held back, so that none is missing either way.
 *
 * Births, programs and ends of its processes are stored by one of the two from the first to the
 * last, or by this one after the daemon has gone: the parts that both have seen could not be
 * matched. So a daemon that has missed the beginning, or comes later, stores samples only, and the
 * events are stored here. */
#pragma once

#include <uv.h>

#include "run/job-run.h"
#include "run/run-backend.h"
#include "writer/store-writer.h"

struct run_storage;

/* What others have made of the run. */
struct run_storage_end {
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* what it is called; "": as was asked */
    const char *cause;                      /* as a daemon tells it; NULL: as the summary says */
    struct process_event_list chain;        /* that goes with it */
};

/* `started` and `pid` are those of the command. The options must outlive it. `loop` may be NULL:
 * then no daemon is asked. NULL if there is no memory. */
struct run_storage *run_storage_begin(uv_loop_t *loop, const struct job_run_options *options,
                                      const struct moment *started, pid_t pid);

/* Whether somebody else keeps it, who sees more than we do. */
bool run_storage_is_kept(const struct run_storage *storage);

/* Whether births, programs and ends of its processes are stored here. */
bool run_storage_keeps_events(const struct run_storage *storage);

/* Whether nobody else does, nor has been asked to. */
bool run_storage_is_ours(const struct run_storage *storage);

/* The box is the storage's. */
void run_storage_tick(struct run_storage *storage, struct tick_box *box);
void run_storage_signalled(struct run_storage *storage, pid_t pid,
                           const struct process_event *sent);

/* Nothing is written between the two. */
void run_storage_hold(struct run_storage *storage);
void run_storage_release(struct run_storage *storage);

/* The run is over: `last` is its last tick (NULL: none), `summary` its figures (NULL: there are
 * none). What is told of it is placed in `arena`. Frees it, once the loop runs. */
void run_storage_finish(struct run_storage *storage, struct tick_box *last,
                        const struct run_summary *summary, double ended_at, struct arena *arena,
                        struct run_storage_end *ret);
