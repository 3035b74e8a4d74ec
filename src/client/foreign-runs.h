/* Finds runs that other `sonde run` processes store in the user's database while there is no
 * daemon, so that top can show them as jobs. Their processes are identified by pid and start time.
 */
#pragma once

#include "engine/engine.h"
#include "store/store.h"

/* How often the caller should search. */
#define FOREIGN_RUNS_EVERY_MSEC 1000

struct foreign_runs {
    const char *database_path;   /* NULL: there is none */
    struct store_reader *reader; /* NULL: not open */
    double began;                /* wall clock: earlier starts and ends are not reported */

    /* Called when a run has begun or ended. May be NULL. */
    void (*on_job)(void *context, const struct job *job, bool is_end);
    void *context;
};

/* The path must outlive `runs`. */
void foreign_runs_init(struct foreign_runs *runs, const char *database_path);
void foreign_runs_done(struct foreign_runs *runs);

/* Registers running runs and ends finished ones. Returns whether anything changed. After a read
 * error, the next call opens the database again. */
bool foreign_runs_update(struct foreign_runs *runs, struct engine *engine,
                         struct registry *registry);
