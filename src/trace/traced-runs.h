/* System calls that tracers counted, by run. They are kept until the last tracer of a run has
 * reported, which may be after the end of the run. */
#pragma once

#include "base/vec.h"
#include "jobs/run.h"
#include "model/syscall-profile.h"

struct traced_run {
    char run_id[UUID_TEXT_SIZE];
    const struct run *run;     /* NULL: it is over */
    struct traced_run *parent; /* the run that it was started in; NULL: none, or over */
    bool is_counted;           /* the kernel counted the calls, which is better */
    size_t tracers;            /* that have not reported yet, including those of inner runs */
    struct syscall_profile calls;
};

/* A zero-initialised struct is empty and valid. */
struct traced_runs {
    struct VEC(struct traced_run *) runs;
};

void traced_runs_done(struct traced_runs *runs);

const struct traced_run *traced_runs_find(const struct traced_runs *runs, const struct run *run);
/* Adds a tracer of a process of the run, and of the runs that it was started in. Returns NULL
 * without memory. */
struct traced_run *traced_runs_add_tracer(struct traced_runs *runs, const struct run *run);
/* Removes a tracer, which has reported `calls`, and adds these to the run and the runs that it was
 * started in. Passes each of them that is over to `on_late`, and frees it if it has no other
 * tracer. Returns 0 or -ENOMEM. */
int traced_runs_remove_tracer(struct traced_runs *runs, struct traced_run *run,
                              const struct syscall_profile *calls,
                              void (*on_late)(void *context, const struct traced_run *run),
                              void *context);
/* Notes that the run is over; `is_counted`: later reports of its tracers are ignored. */
void traced_runs_end_run(struct traced_runs *runs, const struct run *run, bool is_counted);
