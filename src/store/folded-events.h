/* Storms of events, folded: the table `folded_events`.
 *
 * A run that starts and ends thousands of processes a second would fill the disk with rows that
 * nobody reads. Each run has a budget, which is filled up as time passes: while it lasts, events
 * are stored one by one. Once it is spent there is a storm, until it is half full again: events are
 * counted then, per run, program, kind and status, and minute. Nothing is left out of the counts.
 *
 * A storm's command lines mostly differ in their arguments, and whoever starts it chooses them: so
 * it is the program that counts, and there is a limit to how many are told apart. A spawn and an
 * exec are counted with the program that the process ended as, if it ended in the same tick. */
#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "model/process.h"
#include "model/redact.h"
#include "store/schema.h"

/* Spawns, execs and good exits of one run: a build of a few hundred files is stored whole, and so
 * is one that starts thirty processes a second all day. At 100 bytes a row the worst of runs adds
 * 36 MB an hour. */
#define FOLD_BURST      1000
#define FOLD_PER_SECOND 100
/* What should not happen, beside that: signals, kills, failures. More of them than this are one
 * failure, many times. */
#define FOLD_NOTABLE_BURST      1000
#define FOLD_NOTABLE_PER_SECOND 10

/* Rows of a tick, and of a run and minute; what is beyond is counted as of FOLD_OTHERS. */
#define FOLD_ROWS_MAX   256
#define FOLD_MINUTE_MAX 1024
#define FOLD_OTHERS     "(others)"

#define FOLD_SECONDS 60

struct folded_events {
    struct database *database;
    int64_t session;
    const struct text_list *redact;
    sqlite3_stmt *put;
    sqlite3_stmt *count;
    struct map budgets; /* struct fold_budget, by run */

    /* of one tick */
    const struct process_event_list *events;
    struct VEC(
        const char *) commands; /* by event: what its process ended as; none: not asked yet */
    const char *last_command;   /* whose program was asked for last */
    char last_program[PROGRAM_MAX_BYTES + 1];
    struct VEC(struct fold *) rows;
    struct map by_hash; /* the same */
    struct arena arena; /* holds them */
};

void folded_events_init(struct folded_events *folded, struct database *database, int64_t session,
                        const struct text_list *redact);
void folded_events_done(struct folded_events *folded);

/* A tick begins; its events must outlive folded_events_write(). */
void folded_events_begin(struct folded_events *folded, const struct process_event_list *events);
/* Whether the event, one of those of the tick, is to be folded: the budget of its run is spent. 1,
 * 0 or a negative errno. */
int folded_events_must_fold(struct folded_events *folded, int64_t run,
                            const struct process_event *event);
int folded_events_add(struct folded_events *folded, int64_t run, const struct process_event *event);
/* Brings what was folded to the table. */
int folded_events_write(struct folded_events *folded);

/* The transaction is in the database; or it is not, and budgets go back to where they were. */
void folded_events_commit(struct folded_events *folded);
void folded_events_reset(struct folded_events *folded);
