/* A daemon that stores a run in place of `sonde run`, as an interface; client/run-link implements
 * it over the socket.
 *
 * Only await_answer() and finish() wait, for a bounded time. */
#pragma once

#include <sys/types.h>

#include "model/event.h"
#include "model/job.h"

enum backend_state {
    BACKEND_ABSENT, /* no daemon, or it refused; can be asked again */
    BACKEND_ASKED,  /* no answer yet */
    BACKEND_ACTIVE, /* it stores the run */
};

struct run_backend {
    void *context;

    /* Offers the run: `job` as it began, its first process and step; `was_kept`: it was stored
     * before, by this or another daemon or by the caller; `keeps_events`: the caller stores its
     * events. */
    enum backend_state (*offer)(void *context, const struct job *job, pid_t pid, int64_t sheet_num,
                                bool was_kept, bool keeps_events);
    /* The fd to watch for input, unless it is absent; -1: none. */
    int (*get_fd)(void *context);
    /* Handles input, and returns the current state. */
    enum backend_state (*check)(void *context);
    /* The run is over and there is no answer: waits for it, for a bounded time. Returns absent or
     * active. */
    enum backend_state (*await_answer)(void *context);
    /* The name that it gave to the run; valid while active. */
    const char *(*get_job_id)(void *context);
    /* Once active: whether it stores the forks, execs and exits; otherwise the caller does. */
    bool (*has_events)(void *context);
    /* Returns why the run ended, and the chain of failures; NULL: unknown. Valid between finish()
     * and leave(). */
    const char *(*get_cause)(void *context, struct process_event_list *ret_chain);
    void (*signalled)(void *context, pid_t pid, const struct process_event *sent);
    /* The run is over; `job` has its outcome and figures. 0 if it is stored; a negative errno if it
     * is not, or that is unknown. */
    int (*finish)(void *context, const struct job *job);
    /* Closes the connection. A daemon that has not answered yet learns that the run is stored
     * elsewhere. */
    void (*leave)(void *context);
};
