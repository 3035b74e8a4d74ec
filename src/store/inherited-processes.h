/* What an earlier writer of a run saw last of the processes that were alive then: whoever takes the
 * run over goes on from there, so that no process is counted twice, nor what it had used by then.
 *
 * Known by pid and start. Kept until the process turns up and that is stored. */
#pragma once

#include "base/map.h"
#include "store/database.h"

/* What runs and sheets add up. */
enum counter {
    COUNTER_CPU,
    COUNTER_READ,
    COUNTER_WRITE,
    COUNTERS,
};

/* What was last seen of a process, whichever stretch of its process that was in. */
struct counted_process {
    bool is_counted; /* else this is the first sight of it */
    bool was_zombie;
    int64_t run;
    int64_t counters[COUNTERS]; /* the last that were known; 0: none yet */
};

/* The later of the two, of the run of `other`. */
void counted_process_merge(struct counted_process *counted, const struct counted_process *other);

struct inherited_process {
    int64_t pid;
    uint64_t start_ticks;
    struct counted_process counted;
    bool was_found; /* in this transaction */
};

/* Zero-initialised is empty. */
struct inherited_processes {
    struct map by_identity; /* struct inherited_process */
    bool were_found;        /* some */
};

/* Of a run (its number), as the sessions before this one saw it (`turns`). 0 or a negative errno.
 */
int inherited_processes_load(struct inherited_processes *processes, struct database *database,
                             int64_t run, int64_t own_session);
/* NULL: nothing is known of it. */
const struct counted_process *inherited_processes_find(struct inherited_processes *processes,
                                                       int64_t pid, uint64_t start_ticks);
/* Steps through all: see map_next(). */
struct inherited_process *inherited_processes_next(const struct inherited_processes *processes,
                                                   size_t *position);

/* The transaction is in the database: what was found is not needed any more; or it is not. */
void inherited_processes_commit(struct inherited_processes *processes);
void inherited_processes_reset(struct inherited_processes *processes);
void inherited_processes_done(struct inherited_processes *processes);
