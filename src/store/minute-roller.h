/* One-minute roll-ups, made while the samples come in, for when the samples are gone: means of
 * gauges, the last value of counters, and maxima of CPU and memory.
 *
 * A minute is one of the wall clock. It is written by the first tick after it, under the number of
 * its own first tick. A process's row that equals the one of its last minute is left out, as with
 * samples; lists (system calls, zombies' pids) are not kept. */
#pragma once

#include "base/map.h"
#include "model/snapshot.h"
#include "store/schema.h"

/* One column of one object over the minute. */
struct roll_cell {
    int64_t sum;
    int64_t last;
    int64_t written; /* in the last row that there was */
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
    bool is_over;    /* forgotten after this minute */
    struct roll_cell cells[];
};

struct roll_group {
    const struct columns *columns;
    int cpu_at; /* columns whose maxima are kept; -1: none */
    int rss_at;
    int age_at; /* the column that may follow from the snapshot's clock */
    struct map by_key;
    sqlite3_stmt *insert;
};

/* What identifies a snapshot in the tables. */
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
    int64_t minute;    /* Unix time / 60; INT_UNKNOWN: nothing has come yet */
    int64_t from_tick; /* of the minute */
    struct snap_key last;
    struct snapshot last_machine; /* numbers only: what it pointed to is gone */
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

/* A tick begins; writes the minute before it if this one belongs to another. 0 or negative errno.
 */
int minute_roller_begin(struct minute_roller *roller, const struct snapshot *machine,
                        const struct snap_key *key);
/* The same, in the minute that there is, whatever the clock says. */
void minute_roller_go_on(struct minute_roller *roller, const struct snapshot *machine,
                         const struct snap_key *key);
/* Codes as column_code() gives them, by the columns of the group; the number of a shared text. They
 * hold for so many ticks. */
int minute_roller_add(struct roll_group *group, uint64_t key, const int64_t *codes, int64_t ticks);
/* No more will come of it. `age` is what followed from the clock of its last snapshot, if its age
 * was left out: from that of the minute's last it does not. */
void minute_roller_end(struct roll_group *group, uint64_t key, int64_t age);

/* Writes what there is of the minute. */
int minute_roller_flush(struct minute_roller *roller);
/* Forgets all: what is in memory may never have been stored. */
void minute_roller_reset(struct minute_roller *roller);
