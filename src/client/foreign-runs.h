/* Runs of `sonde run` that write to the own database while there is no daemon. Searched for
 * periodically; their processes are found by pid and start time. */
#pragma once

#include "engine/engine.h"
#include "store/store.h"

#define FOREIGN_RUNS_EVERY_MSEC 1000

struct foreign_runs {
    const char *database_path;   /* NULL: there is none */
    struct store_reader *reader; /* NULL: not open */
    double began;                /* wall clock: runs that began before are not reported */

    /* A run has begun or ended. May be NULL. */
    void (*on_job)(void *context, const struct job *job, bool is_end);
    void *context;
};

/* The path must outlive it. */
void foreign_runs_init(struct foreign_runs *runs, const char *database_path);
void foreign_runs_done(struct foreign_runs *runs);

/* Registers running runs and removes finished ones. Returns whether anything changed. A read error
 * is retried at the next call. */
bool foreign_runs_look(struct foreign_runs *runs, struct engine *engine, struct registry *registry);
