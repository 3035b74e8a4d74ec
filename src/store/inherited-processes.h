/* The processes of a run that this session took over, with the counters that the earlier writers
 * have already added to the run. This session continues from them, so that no process and no usage
 * counts twice.
 *
 * A process is identified by pid and start time. It is dropped once this session has stored a
 * sample of it. */
#pragma once

#include "base/map.h"
#include "store/database.h"

/* The counters of processes that are added up for runs and steps. */
enum counter {
    COUNTER_CPU,
    COUNTER_READ,
    COUNTER_WRITE,
    COUNTERS,
};

/* What has been counted of a process, over all its rows of `proc`. */
struct counted_process {
    bool is_counted; /* false: the next sample is the first one */
    bool was_zombie;
    int64_t run;
    int64_t counters[COUNTERS]; /* the last known values */
};

/* Keeps the larger of each counter, and the run of `other`. */
void counted_process_merge(struct counted_process *counted, const struct counted_process *other);

struct inherited_process {
    int64_t pid;
    uint64_t start_ticks;
    struct counted_process counted;
    bool was_found; /* by this session, in this transaction */
};

/* Zero-initialised is empty. */
struct inherited_processes {
    struct map by_identity; /* struct inherited_process */
    bool were_found;        /* at least one */
};

/* Loads the processes of a run (its row in `jobs`) from the sessions that wrote it before
 * (`turns`). Returns 0 or a negative errno. */
int inherited_processes_load(struct inherited_processes *processes, struct database *database,
                             int64_t run, int64_t own_session);
/* Marks a process as found, and returns what was counted of it; NULL: unknown process. */
const struct counted_process *inherited_processes_find(struct inherited_processes *processes,
                                                       int64_t pid, uint64_t start_ticks);
/* Iterates over all: see map_next(). */
struct inherited_process *inherited_processes_next(const struct inherited_processes *processes,
                                                   size_t *position);

/* Call after the transaction: it was committed, and the processes found are dropped; or it was
 * rolled back, and they are unmarked. */
void inherited_processes_commit(struct inherited_processes *processes);
void inherited_processes_reset(struct inherited_processes *processes);
void inherited_processes_done(struct inherited_processes *processes);
