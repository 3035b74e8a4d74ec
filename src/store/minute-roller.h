/* Writes one-minute roll-ups, which remain when retention deletes the samples: means of gauges, the
 * last value of counters, and maxima of CPU and memory.
 *
 * A minute is one of the wall clock. The first tick after it writes it, under its own first tick. A
 * row of a process that equals the row of its previous minute is left out, as with samples. Lists
 * (system calls, pids of zombies) are not rolled up. */
#pragma once

#include "base/map.h"
#include "model/snapshot.h"
#include "store/schema.h"

/* One column of one object over the minute. */
struct roll_cell {
    int64_t sum;
    int64_t last;
    int64_t written; /* in the last row */
    int64_t count;
};

/* One object: a process row, a GPU, a run, the machine. */
struct roll {
    uint64_t key;
    int64_t max_cpu;
    int64_t max_rss;
    int64_t written_max_cpu;
    int64_t written_max_rss;
    bool has_written;
    bool is_touched; /* in this minute */
    bool is_over;    /* has ended; dropped after this minute */
    struct roll_cell cells[];
};

struct roll_group {
    const struct columns *columns;
    int cpu_at; /* columns whose maxima are kept; -1: none */
    int rss_at;
    int age_at; /* the column that is NULL if it follows from the clock of the snapshot */
    struct map by_key;
    sqlite3_stmt *insert;
};

/* The columns of `snap` that are not fields of a snapshot. */
struct snap_key {
    int64_t id;
    int64_t tick;
    int64_t child_count;
    int64_t age_clock; /* age of a process + its start, in ticks of start times */
};

struct minute_roller {
    struct database *database;
    const struct schema *schema;
    int64_t session;
    int64_t minute;    /* Unix time / 60; INT_UNKNOWN: no tick yet */
    int64_t from_tick; /* of the minute */
    struct snap_key last;
    struct snapshot last_machine; /* only the numbers; its pointers are NULL */
    struct roll *machine;
    struct roll_group processes;
    struct roll_group gpus;
    struct roll_group usages;
    sqlite3_stmt *insert_snap;
    sqlite3_stmt *set_rolled;
};

int minute_roller_init(struct minute_roller *roller, struct database *database,
                       const struct schema *schema, int64_t session);
void minute_roller_done(struct minute_roller *roller);

/* The functions below run within a transaction and return 0 or a negative errno. */

/* Begins a tick. If it belongs to a new minute, writes the previous one. */
int minute_roller_begin(struct minute_roller *roller, const struct snapshot *machine,
                        const struct snap_key *key);
/* The same regardless of the clock: the tick belongs to the current minute. */
void minute_roller_continue(struct minute_roller *roller, const struct snapshot *machine,
                            const struct snap_key *key);
/* Adds the values of an object, which were valid for `ticks` ticks. `codes` has a column_code(), or
 * the id of a shared text, for each column of the group. */
int minute_roller_add(struct roll_group *group, uint64_t key, const int64_t *codes, int64_t ticks);
/* Ends an object. `age` is its age at its last sample. It is stored if the last row has none: such
 * an age follows from the clock of that snapshot, which is not the last one of the minute. */
void minute_roller_end(struct roll_group *group, uint64_t key, int64_t age);

/* Writes the current minute, even if it is not over. */
int minute_roller_flush(struct minute_roller *roller);
/* Drops everything, after a transaction was rolled back. */
void minute_roller_reset(struct minute_roller *roller);
