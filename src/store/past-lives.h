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

/* What was last seen of a process, whichever stretch of its life that was in. */
struct past {
    bool is_there; /* else this is the first sight of it */
    bool was_dead;
    int64_t run;
    int64_t counters[COUNTERS]; /* the last that were known; 0: none yet */
};

/* The later of the two, of the run of `other`. */
void past_add(struct past *past, const struct past *other);

struct past_life {
    int64_t pid;
    uint64_t start_ticks;
    struct past past;
    bool was_found; /* in this transaction */
};

/* Zero-initialised is empty. */
struct past_lives {
    struct map by_identity; /* struct past_life */
    bool were_found;        /* some */
};

/* Of a run (its number), as the sessions before this one saw it (`turns`). 0 or a negative errno.
 */
int past_lives_load(struct past_lives *lives, struct database *database, int64_t run,
                    int64_t own_session);
/* NULL: nothing is known of it. */
const struct past *past_lives_find(struct past_lives *lives, int64_t pid, uint64_t start_ticks);
/* Steps through all: see map_next(). */
struct past_life *past_lives_next(const struct past_lives *lives, size_t *position);

/* The transaction is in the database: what was found is not needed any more; or it is not. */
void past_lives_commit(struct past_lives *lives);
void past_lives_reset(struct past_lives *lives);
void past_lives_done(struct past_lives *lives);
