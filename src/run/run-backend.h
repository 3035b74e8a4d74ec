/* Someone who keeps a run in the place of `sonde run`: a daemon. What `engine` knows of it; the
 * socket is the client's business.
 *
 * Nothing here waits but await_answer() and finish(), for a bounded time. */
#pragma once

#include <sys/types.h>

#include "model/event.h"
#include "model/job.h"

enum keeper_state {
    KEEPER_ABSENT, /* nobody is there, or nobody who wants it: it can be asked again */
    KEEPER_ASKED,  /* it was asked, and has not answered yet */
    KEEPER_KEEPS,
};

struct run_backend {
    void *context;

    /* Reports the run: `job` as it began, its first process, its step; whether another, or this
     * keeper in an earlier life, has kept it until now; and whether the caller stores its events.
     */
    enum keeper_state (*ask)(void *context, const struct job *job, pid_t pid, int64_t sheet_num,
                             bool was_kept, bool keeps_events);
    /* To be watched for input while it is not absent; -1: none. */
    int (*get_fd)(void *context);
    /* There is input, or time has passed: how it stands now. */
    enum keeper_state (*check)(void *context);
    /* The run is over, and it has not answered yet: waits for that, for a bounded time. Either
     * absent or keeps. */
    enum keeper_state (*await_answer)(void *context);
    /* The name that it has given the run; valid once it keeps it. */
    const char *(*get_job_id)(void *context);
    /* Once it keeps the run: whether it stores every birth, program and end; else the caller
     * does. */
    bool (*has_events)(void *context);
    /* Why the run ended as it did, by what it has seen, and the chain of failures that led there;
     * NULL: it does not say. After finish(), until leave(). */
    const char *(*get_cause)(void *context, struct process_event_list *ret_chain);
    void (*signalled)(void *context, pid_t pid, const struct process_event *sent);
    /* The run is over; `job` has its outcome and its figures. 0: it is kept; a negative errno: it
     * is not, or nobody knows. */
    int (*finish)(void *context, const struct job *job);
    /* Leaves it. One that has not answered yet is informed that the run is kept here. */
    void (*leave)(void *context);
};
