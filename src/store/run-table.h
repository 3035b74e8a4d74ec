/* Writes the tables `jobs` and `sheets` (runs and steps). Their figures are updated with every
 * snapshot, so that a report never has to read samples.
 *
 * Several sessions can write a run one after the other (a restarted daemon, a `sonde run` whose
 * daemon has died). The figures continue from those in the database and never decrease, even while
 * two sessions write. They do not change after the run has ended.
 *
 * CPU time: a new writer starts its own account, with what the living processes have used so far.
 * It is added to the stored value. The usage of processes that ended between the two writers is
 * missing, so that the figure is a lower bound.
 *
 * Peaks, kills and failures are written at once. Figures that grow with every snapshot of a busy
 * run (CPU time, bytes, processes, samples) are written by a long-lived session only every
 * GROWTH_SNAPSHOTS snapshots and at the end; if it dies, session_mark_jobs_lost() completes them
 * from the samples. That is not possible for a run that was taken over, so its figures are written
 * with every snapshot.
 *
 * run-table.c updates figures from samples and events; run-table-lifecycle.c begins, takes over and
 * ends runs and steps. */
#pragma once

#include "base/map.h"
#include "base/uuid.h"
#include "base/vec.h"
#include "model/job.h"
#include "model/snapshot.h"
#include "store/schema.h"

/* One minute at an interval of 5 s. */
#define GROWTH_SNAPSHOTS 12

struct sheet_row {
    struct sheet sheet;  /* only the figures */
    struct sheet stored; /* as of the last committed transaction */
    bool has_ended;      /* its figures are final */
    double cpu_now;      /* CPU percent of its processes in this snapshot */
    bool is_changed;
    bool has_grown;
};

/* CPU time of a run that this session took over. */
struct taken_run {
    double cpu_before; /* stored by earlier sessions; REAL_UNKNOWN: none */
    double cpu_more;   /* to add to the account of this session; unknown before its first figure */
};

struct run_row {
    int64_t id;
    char run_id[UUID_TEXT_SIZE];
    struct job job;            /* only the figures of its profile */
    struct job_profile stored; /* as of the last committed transaction */
    size_t stored_sheets;
    bool is_stored;
    bool has_ended;
    bool must_reload;        /* changed by a caller in this transaction: dropped at its commit */
    bool is_changed;         /* must be written at once */
    bool has_grown;          /* can be written later */
    uint64_t written_count;  /* snapshot_count when it was last written */
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
    struct map by_hash;  /* struct run_row, by hash of its run_id */
    struct map taken;    /* struct taken_run, by the same */
    int64_t tick;        /* of the current or last snapshot */
    int64_t stored_tick; /* as of the last committed transaction */
    uint64_t snapshot_count;
    uint64_t growth_interval; /* snapshots between two updates of growing figures */
    struct columns final;     /* written at the end of a run */
    struct columns figures;   /* updated from samples */
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
/* Call after the transaction: it was committed, or it was rolled back and the figures are restored.
 */
void run_table_commit(struct run_table *table);
void run_table_reset(struct run_table *table);

/* The functions below run within a transaction. Those that return int return 0 or a negative errno,
 * unless stated otherwise. */

/* Finds or inserts the row of a run: a process may be sampled before its run begins. *ret is valid
 * until the next commit or reset. */
int run_table_get(struct run_table *table, const char *run_id, const char *job_id,
                  struct run_row **ret);

/* See store_begin_job(), store_finish_job() and store_write_sheet(). The first also returns
 * RUN_TAKEN if it took the run over from another session (*ret_taken is its row in `jobs`), and
 * RUN_IS_OVER if another session has stored its end. */
enum { RUN_TAKEN = 1, RUN_IS_OVER };
int run_table_begin_job(struct run_table *table, const struct job *job, double now,
                        char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES], int64_t *ret_taken);
int run_table_finish_job(struct run_table *table, const struct job *job);
int run_table_put_sheet(struct run_table *table, const struct sheet *sheet);

/* The next three are for run-table-lifecycle.c. */

/* Inserts a row of `jobs`. Returns 1, 0 if the run exists, or a negative errno. */
int run_table_insert_job(struct run_table *table, const struct job *job);
/* Inserts or updates a step. */
int run_table_write_sheet(struct run_table *table, const struct sheet *sheet);
/* Writes the figures of a run. The commit then drops the run from memory, so that it is read again
 * after a caller has changed it. */
int run_table_write_and_drop(struct run_table *table, const char *run_id);

/* What a process adds to its run and its step between two of its samples. */
struct process_delta {
    bool is_new;         /* its first sample */
    bool is_left_zombie; /* a zombie in this sample and the one before: not about to be reaped */
    double cpu_seconds;
    int64_t read_bytes; /* INT_UNKNOWN: not known */
    int64_t write_bytes;
};

void run_table_begin_snapshot(struct run_table *table, int64_t tick);
int run_table_add_process(struct run_table *table, struct run_row *run,
                          const struct process_metric *process, const struct process_delta *delta);
void run_table_add_usage(struct run_row *run, const struct job_usage *usage);
void run_table_add_event(struct run_row *run, const struct process_event *event);
/* Ends a snapshot: writes the figures that have changed. */
int run_table_end_snapshot(struct run_table *table);
/* Writes all changed figures, also those that only grow; for ticks without a snapshot. */
int run_table_write_changes(struct run_table *table);
