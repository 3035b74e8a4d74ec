/* For the tests of the store: a database in a temporary directory, random snapshots and other
 * records made from the field tables (so that new fields are tested, too), and comparisons at the
 * resolution of each field. The seed alone determines the records. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "store/store.h"

/* ---- a database ---- */

struct store_fixture {
    char dir[64];
    char path[96];
    char jsonl_path[96];
    struct store_options options; /* without a JSONL log */
};

#define FIXTURE_INTERVAL 5.0

/* The time of the next snapshot that a test makes itself; the test can advance it. */
extern double fixture_now;
/* Advances the time by an interval, and sets the time and the id of a snapshot. */
void fixture_stamp(struct snapshot *snapshot);

int store_fixture_set_up(void **state);
int store_fixture_tear_down(void **state);

/* Deletes the files beside the database. */
void fixture_remove_sides(const struct store_fixture *fixture);

/* These fail the test if they fail. */
struct store *fixture_open(const struct store_fixture *fixture);
/* Runs `act` in a process that then dies without closing the store; `seconds` pass. */
void fixture_die_after(const struct store_fixture *fixture, void (*act)(struct store *store),
                       double seconds);
struct store_reader *fixture_reader(const struct store_fixture *fixture);
/* Opens the file with plain SQLite. */
sqlite3 *fixture_sqlite(const struct store_fixture *fixture);

void run_sql(sqlite3 *handle, const char *sql);
/* The first column of the first row; fails the test without a row. */
int64_t ask_int(sqlite3 *handle, const char *sql);
double ask_real(sqlite3 *handle, const char *sql);

/* ---- random records ---- */

struct chance {
    uint64_t state;
    bool is_tame; /* numbers are ordinary or unknown */
};

uint64_t random_next(struct chance *random);
/* 0 to limit - 1. */
uint64_t random_below(struct chance *random, uint64_t limit);
/* One time in `times`. */
bool random_once_in(struct chance *random, uint64_t times);

/* Random values for one field or for all: unknown, ordinary, extreme or hostile. Required fields
 * are known. */
void random_field(struct chance *random, const struct field *field, struct arena *arena,
                  void *object);
void random_record(struct chance *random, const struct record *record, struct arena *arena,
                   void *object);

/* Also initialise the members that are not in the field tables: details_are_calls of an event,
 * is_opening of an anomaly. */
void init_event(struct process_event *event);
void random_event(struct chance *random, struct arena *arena, struct process_event *event);
void init_anomaly(struct anomaly *anomaly);
void random_anomaly(struct chance *random, struct arena *arena, struct anomaly *anomaly);

/* ---- a synthetic machine ---- */

/* Later than the start of any session, which is of the real clock. */
#define WORLD_START 4000000000.125

#define WORLD_PIDS 10
#define WORLD_RUNS 4

struct world_run {
    char run_id[40];
    char job_id[16];
};

struct world_process {
    bool is_alive;
    bool is_idle;    /* its samples rarely change */
    bool keeps_time; /* its age follows from its start */
    struct process_metric metric;
};

struct world {
    struct chance random;
    double now;
    uint64_t clock_ticks; /* the current time in units of start_ticks */
    int64_t last_id;
    unsigned tag;
    struct world_run runs[WORLD_RUNS];
    struct world_process processes[WORLD_PIDS];
    struct arena arena;
};

void world_init(struct world *world, uint64_t seed);
/* The same with figures small enough to be added up. */
void world_init_tame(struct world *world, uint64_t seed);
void world_done(struct world *world);
/* Advances the time and makes a snapshot, which the caller owns. */
struct snapshot *world_tick(struct world *world);

/* Writes a snapshot, which the caller still owns. */
void write_snapshot(struct store *store, struct snapshot *snapshot);

/* Writes an anomaly in a tick of its own, or a pattern beside those that are stored. 0 or a
 * negative errno. */
int write_anomaly(struct store *store, const struct anomaly *anomaly);
int write_pattern(struct store *store, const struct pattern *pattern);

/* The snapshots that a test has written, in their order. It owns them. */
struct written VEC(struct snapshot *);

void written_add(struct written *written, struct snapshot *snapshot);
void written_done(struct written *written);
/* Makes and writes the next snapshot; or only makes it, after another process has written it. */
struct snapshot *write_next(struct store *store, struct world *world, struct written *written);
void written_elsewhere(struct written *written, struct world *world, pid_t pid);

/* SQL that makes a database one of schema version 4, as far as the migration from it matters. */
#define TO_VERSION_4                                                                               \
    "ALTER TABLE jobs DROP COLUMN cpu_seconds;"                                                    \
    "ALTER TABLE jobs DROP COLUMN processes;"                                                      \
    "ALTER TABLE jobs DROP COLUMN left_running_count;"                                             \
    "ALTER TABLE jobs DROP COLUMN peak_processes;"                                                 \
    "ALTER TABLE jobs DROP COLUMN exactness_peak_processes;"                                       \
    "PRAGMA user_version = 4;"

/* ---- comparison ---- */

/* Returns whether the store keeps a value of the field: infinity and empty lists are unknown. */
bool is_stored(const struct field *field, const void *object);
/* Copies the known fields of `from`. */
void record_merge(const struct record *record, void *into, const void *from);

/* Whether the two are equal at the resolution of each field; prints the differences. */
bool same_real(const struct field *field, double written, double found);
bool same_record(const struct record *record, const void *written, const void *found);
/* `what` and `number` are for the message. */
void assert_same_record(const struct record *record, const void *written, const void *found,
                        const char *what, size_t number);
void assert_same_snapshot(const struct snapshot *written, const struct snapshot *found,
                          size_t number);
void assert_same_snapshots(struct snapshot *const *written, size_t count,
                           const struct snapshot_list *found);
