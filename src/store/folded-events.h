/* Writes the table `folded_events`, which counts the events of storms.
 *
 * A run that starts and ends thousands of processes a second would fill the disk. Each run has a
 * token bucket (budget) that refills as time passes. While it has tokens, events are stored one by
 * one. A storm begins when it is empty, and ends when it is half full again. During a storm, events
 * are only counted, per run, minute, program, type and status. The counts include every event.
 *
 * The counts are by program, because the arguments in a storm usually differ. The number of
 * programs that are counted separately is limited, because users choose their names. A spawn and an
 * exec count for the program that the process had at its end, if it ended in the same tick. */
#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "model/process.h"
#include "store/schema.h"

/* Spawns, execs and successful exits of one run. A build of a few hundred files is stored
 * completely, and so is a run that starts thirty processes a second all day. At 100 bytes a row, a
 * run adds 36 MB an hour at most. */
#define FOLD_BURST      1000
#define FOLD_PER_SECOND 100
/* Signals, kills and failures have a budget of their own. More than this are one failure that
 * repeats. */
#define FOLD_NOTABLE_BURST      1000
#define FOLD_NOTABLE_PER_SECOND 10

/* Limits on the rows of one tick, and of one run and minute. Further programs count as FOLD_OTHERS.
 */
#define FOLD_ROWS_MAX   256
#define FOLD_MINUTE_MAX 1024
#define FOLD_OTHERS     "(others)"

#define FOLD_SECONDS 60

struct folded_events {
    struct database *database;
    int64_t session;
    sqlite3_stmt *put;
    sqlite3_stmt *count;
    struct map budgets; /* struct fold_budget, by run */

    /* of one tick */
    const struct process_event_list *events;
    struct VEC(const char *)
        commands; /* for each event, the last command of its process; empty: not needed yet */
    const char *last_command; /* whose program is in last_program */
    char last_program[PROGRAM_MAX_BYTES + 1];
    struct VEC(struct fold *) rows;
    struct map by_hash; /* the same rows */
    struct arena arena; /* owns the rows */
};

void folded_events_init(struct folded_events *folded, struct database *database, int64_t session);
void folded_events_done(struct folded_events *folded);

/* Begins a tick. `events` must stay valid until folded_events_write(). */
void folded_events_begin(struct folded_events *folded, const struct process_event_list *events);
/* Charges an event of the tick to the budget of its run. Returns 1 if the event must be folded, 0
 * or a negative errno. */
int folded_events_must_fold(struct folded_events *folded, int64_t run,
                            const struct process_event *event);
/* Counts an event that must be folded. */
int folded_events_add(struct folded_events *folded, int64_t run, const struct process_event *event);
/* Adds the counts of the tick to the table. Call it within a transaction. Returns 0 or a negative
 * errno. */
int folded_events_write(struct folded_events *folded);

/* Call after the transaction: it was committed, or it was rolled back and the budgets are restored.
 */
void folded_events_commit(struct folded_events *folded);
void folded_events_reset(struct folded_events *folded);
