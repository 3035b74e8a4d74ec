/* Runs that others write to the own database while there is no daemon: those of `sonde run`. They
 * are looked for now and then, and their processes are found by their identity. */
#pragma once

#include "engine/engine.h"
#include "store/store.h"

#define FOREIGN_RUNS_EVERY_MSEC 1000

struct foreign_runs {
    const char *database_path;   /* NULL: there is none */
    struct store_reader *reader; /* NULL: not open */
    double began;                /* wall clock: what began before is no news */

    /* One has begun, or ended. May be NULL. */
    void (*on_job)(void *context, const struct job *job, bool is_end);
    void *context;
};

/* The path must outlive it. */
void foreign_runs_init(struct foreign_runs *runs, const char *database_path);
void foreign_runs_done(struct foreign_runs *runs);

/* Makes the registry know those that are going on, and forget those that are over; whether there
 * are others than before. What cannot be read is looked for again the next time. */
bool foreign_runs_look(struct foreign_runs *runs, struct engine *engine, struct registry *registry);
