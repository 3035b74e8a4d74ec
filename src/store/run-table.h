/* Runs and their sheets: the tables `jobs` and `sheets`, and the roll-ups of each run and sheet
 * that grow with every snapshot, so that a report never looks through samples.
 *
 * A run may be written by several sessions in turn (a daemon that was started again, a `sonde run`
 * whose daemon is gone): what is in the database is where its figures go on from, and they never
 * fall, even while two write at once. Once it has ended its figures stay.
 *
 * CPU time is an account that a new writer opens anew, with what the living have used so far: what
 * is in the database when it first comes is where it goes on from. What was used in between by
 * processes that were gone by then is missing, so that the figure is a lower bound.
 *
 * Peaks, kills and failures are written at once. What grows with every snapshot of a busy run (CPU
 * time, bytes, processes, samples) is written now and then, and at its end, by a writer with many
 * runs; if that dies, the last of it is in the samples (session_lose_jobs()). For a run that was
 * taken over, these alone would not tell: it is written with every snapshot.
 *
 * run-table-lifecycle.c has what is told of runs, run-table.c what samples give. */
#pragma once

#include "base/map.h"
#include "base/uuid.h"
#include "base/vec.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "store/schema.h"

/* Of a daemon: a minute at 5 s. */
#define GROWTH_SNAPSHOTS 12

struct sheet_row {
    struct sheet sheet;  /* its figures; texts are not kept */
    struct sheet stored; /* … as of the last transaction that is in the database */
    double cpu_now;      /* of its processes in this snapshot */
    bool is_changed;
    bool has_grown;
};

/* A run that another session wrote before. */
struct taken_run {
    double cpu_before; /* as it was found; REAL_UNKNOWN: none */
    double cpu_more;   /* that the account of this session lacks; unknown before its first figure */
};

struct run_row {
    int64_t id;
    char run_id[UUID_TEXT_SIZE];
    struct job job;            /* the figures of its profile; texts are not kept */
    struct job_profile stored; /* … as of the last transaction that is in the database */
    size_t stored_sheets;
    bool is_stored;
    bool has_ended;
    bool was_told;           /* of, in this transaction: forgotten with its end, and read again */
    bool is_changed;         /* to be written at once */
    bool has_grown;          /* to be written soon */
    uint64_t written_count;  /* snapshots there had been when it was written last */
    struct taken_run *taken; /* NULL: this session was its first */
    struct VEC(struct sheet_row) sheets;

    /* in this snapshot */
    double rss_now;
    int64_t zombies_now;
    bool is_here;
};

struct run_table {
    struct database *database;
    const struct schema *schema;
    int64_t session;
    struct map by_hash;      /* struct run_row, by hash of its run_id */
    struct map taken;        /* struct taken_run, by the same */
    int64_t tick;            /* of the snapshot that is being added, or was last */
    int64_t stored_tick;     /* … as of the last transaction that is in the database */
    uint64_t snapshot_count; /* that were added */
    uint64_t patience;       /* snapshots between two writings of what has grown */
    struct columns told;     /* at the end of a run */
    struct columns figures;  /* that samples give */
    struct columns sheet_figures;
    sqlite3_stmt *find;
    sqlite3_stmt *insert;
    sqlite3_stmt *update_figures;
    sqlite3_stmt *finish;
    sqlite3_stmt *is_running;
    sqlite3_stmt *put_sheet;
    sqlite3_stmt *find_sheet;
    sqlite3_stmt *update_sheet;
    sqlite3_stmt *end_sheets;
};

int run_table_init(struct run_table *table, struct database *database, const struct schema *schema,
                   int64_t session);
void run_table_done(struct run_table *table);
/* The transaction is in the database; or it is not, and figures go back to where they were. */
void run_table_commit(struct run_table *table);
void run_table_reset(struct run_table *table);

/* The run's row, made if there is none: a process may be seen before its run was told of. *ret is
 * valid until the run is told of, or the next reset. 0 or a negative errno. */
int run_table_get(struct run_table *table, const char *run_id, const char *job_id,
                  struct run_row **ret);

/* See store_begin_job() and so on. RUN_TAKEN: the run was another session's, its number is in
 * *ret_taken. RUN_IS_OVER: another session has stored its end. */
enum { RUN_TAKEN = 1, RUN_IS_OVER };
int run_table_begin_job(struct run_table *table, const struct job *job, double now,
                        char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES], int64_t *ret_taken);
int run_table_finish_job(struct run_table *table, const struct job *job);
int run_table_put_sheet(struct run_table *table, const struct sheet *sheet);

/* For run-table-lifecycle.c: a row of `jobs` that is not there yet, 1, or 0 if it is; a sheet, made
 * or brought up to date; all that is in memory of a run, written, and forgotten with the
 * transaction: what others tell of it goes on top of what samples have given, and is read again
 * when it turns up. */
int run_table_insert_job(struct run_table *table, const struct job *job);
int run_table_write_sheet(struct run_table *table, const struct sheet *sheet);
int run_table_write_and_forget(struct run_table *table, const char *run_id);
uint64_t run_hash(const char *run_id);

/* What a process adds to its run and its sheet: between two of its samples. */
struct process_delta {
    bool is_new;         /* the first sight of it */
    bool is_left_zombie; /* a zombie, and was one before: not just one that ends */
    double cpu_seconds;
    int64_t read_bytes; /* INT_UNKNOWN: not known */
    int64_t write_bytes;
};

void run_table_begin_snapshot(struct run_table *table, int64_t tick);
int run_table_add_process(struct run_table *table, struct run_row *run,
                          const struct process_metric *process, const struct process_delta *delta);
void run_table_add_usage(struct run_row *run, const struct job_usage *usage);
void run_table_add_event(struct run_row *run, const struct process_event *event);
/* Writes the figures that have changed: after a snapshot, or after events alone. */
int run_table_end_snapshot(struct run_table *table);
int run_table_write_changes(struct run_table *table);
