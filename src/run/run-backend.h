/* A daemon that stores a run in place of `sonde run`, as an interface; client/run-link implements
 * it over the socket.
 *
 * Only await_answer() and finish() wait, for a bounded time. */
#pragma once

#include <sys/types.h>

#include "model/event.h"
#include "model/job.h"

enum backend_state {
    BACKEND_ABSENT, /* no daemon, or it refused; the run can be offered again */
    BACKEND_ASKED,  /* the run was offered; no answer yet */
    BACKEND_ACTIVE, /* it stores the run */
};

struct run_backend {
    void *context;

    /* Offers the run to a daemon: `job` as it began, its first process and step. `was_kept`: the
     * run was stored before, by this or another daemon or by the caller. `keeps_events`: the caller
     * stores the events of the run. */
    enum backend_state (*offer)(void *context, const struct job *job, pid_t pid, int64_t sheet_num,
                                bool was_kept, bool keeps_events);
    /* Returns the fd to watch for input, unless the daemon is absent; -1: none. */
    int (*get_fd)(void *context);
    /* Handles input, and returns the current state. */
    enum backend_state (*check)(void *context);
    /* Waits for the answer to the offer, for a bounded time, because the run is over. Returns
     * BACKEND_ABSENT or BACKEND_ACTIVE. */
    enum backend_state (*await_answer)(void *context);
    /* Returns the name that the daemon gave to the run; valid while it is active. */
    const char *(*get_job_id)(void *context);
    /* Returns whether the active daemon stores the forks, execs and exits; if not, the caller does.
     */
    bool (*has_events)(void *context);
    /* Returns why the run ended, and the chain of failures; NULL: unknown. Valid between finish()
     * and leave(). */
    const char *(*get_cause)(void *context, struct process_event_list *ret_chain);
    /* Reports a signal that was sent to a process of the run. */
    void (*signalled)(void *context, pid_t pid, const struct process_event *sent);
    /* Reports the end of the run; `job` has its outcome and figures. Returns 0 if the daemon stored
     * it; a negative errno if it did not, or if that is unknown. */
    int (*finish)(void *context, const struct job *job);
    /* Closes the connection. If the daemon has not answered yet, it is informed that the run is
     * stored elsewhere. */
    void (*leave)(void *context);
};
