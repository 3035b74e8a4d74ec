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
#include "run/run-keeper.h"
#include "writer/store-writer.h"

struct run_custody;

/* What others have made of the run. */
struct run_custody_end {
    char job_id[JOB_ID_NUMBERED_MAX_BYTES]; /* what it is called; "": as was asked */
    const char *cause;                      /* as a daemon tells it; NULL: as the summary says */
    struct process_event_list chain;        /* that goes with it */
};

/* `started` and `pid` are those of the command. The options must outlive it. `loop` may be NULL:
 * then no daemon is asked. NULL if there is no memory. */
struct run_custody *run_custody_begin(uv_loop_t *loop, const struct job_run_options *options,
                                      const struct moment *started, pid_t pid);

/* Whether somebody else keeps it, who sees more than we do. */
bool run_custody_is_kept(const struct run_custody *custody);

/* Whether births, programs and ends of its processes are stored here. */
bool run_custody_keeps_events(const struct run_custody *custody);

/* Whether nobody else does, nor has been asked to. */
bool run_custody_is_ours(const struct run_custody *custody);

/* The box is the custody's. */
void run_custody_tick(struct run_custody *custody, struct tick_box *box);
void run_custody_signalled(struct run_custody *custody, pid_t pid,
                           const struct process_event *sent);

/* Nothing is written between the two. */
void run_custody_hold(struct run_custody *custody);
void run_custody_release(struct run_custody *custody);

/* The run is over: `last` is its last tick (NULL: none), `summary` its figures (NULL: there are
 * none). What is told of it is placed in `arena`. Frees it, once the loop runs. */
void run_custody_finish(struct run_custody *custody, struct tick_box *last,
                        const struct run_summary *summary, double ended_at, struct arena *arena,
                        struct run_custody_end *ret);
