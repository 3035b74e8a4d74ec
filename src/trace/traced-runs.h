/* What tracers have told of runs: added up by run, and kept until the last tracer of a run has
 * told, which may be after the run itself is over. */
#pragma once

#include "base/vec.h"
#include "jobs/run.h"
#include "model/syscall-profile.h"

struct traced_run {
    char run_id[UUID_TEXT_SIZE];
    const struct run *run;     /* NULL: it is over */
    struct traced_run *parent; /* that it was started in; NULL: none, or not known any more */
    bool is_counted;           /* by others, and better */
    size_t tracers;            /* that have not told yet, those of runs within it included */
    struct syscall_profile calls;
};

/* Zero-initialised is empty. */
struct traced_runs {
    struct VEC(struct traced_run *) runs;
};

void traced_runs_done(struct traced_runs *runs);

const struct traced_run *traced_runs_find(const struct traced_runs *runs, const struct run *run);
/* A tracer begins, of a process of that run. NULL without memory. */
struct traced_run *traced_runs_begin(struct traced_runs *runs, const struct run *run);
/* It has told; each run that is over is handed to `on_late`, and forgotten if it has no others. 0
 * or -ENOMEM. */
int traced_runs_end(struct traced_runs *runs, struct traced_run *run,
                    const struct syscall_profile *calls,
                    void (*on_late)(void *context, const struct traced_run *run), void *context);
/* The run is over; `is_counted`: what is told of it from now on is not of interest. */
void traced_runs_over(struct traced_runs *runs, const struct run *run, bool is_counted);
