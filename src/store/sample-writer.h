/* Snapshots into rows: only what has changed, a keyframe every so often, the fold, and what each
 * sample adds to the roll-ups of minutes, runs and sheets.
 *
 * Keeps in memory what it last wrote of each process. If a transaction fails after all, memory and
 * database differ: sample_writer_reset() makes the next snapshot begin anew, as a session does. */
#pragma once

#include "base/map.h"
#include "store/inherited-processes.h"
#include "store/minute-roller.h"
#include "store/run-table.h"
#include "store/schema.h"
#include "store/text-pool.h"

/* So many ticks after a keyframe comes the next, and the samples between are folded. */
#define KEYFRAME_TICKS 60

struct sample_writer {
    struct database *database;
    const struct schema *schema;
    struct text_pool *texts;
    struct run_table *runs;
    const struct text_list *redact;
    int64_t session;
    int64_t tick;          /* of the last snapshot that was written */
    int64_t keyframe_tick; /* 0: none yet */
    int64_t age_clock;     /* of that snapshot */
    bool must_begin_anew;
    struct map lives; /* struct life, by pid */
    struct inherited_processes inherited;
    struct minute_roller roller;
    int counter_at[COUNTERS]; /* columns of a sample */
    int age_at, state_at;
    sqlite3_stmt *insert_snap;
    sqlite3_stmt *insert_proc;
    sqlite3_stmt *end_proc;
    sqlite3_stmt *insert_sample;
    sqlite3_stmt *insert_gpu;
    sqlite3_stmt *insert_usage;
};

int sample_writer_init(struct sample_writer *writer, struct database *database,
                       const struct schema *schema, struct text_pool *texts, struct run_table *runs,
                       const struct text_list *redact, int64_t session);
void sample_writer_done(struct sample_writer *writer);

/* Other words from now on; they must outlive it. What was stored stays. */
void sample_writer_configure(struct sample_writer *writer, const struct text_list *redact);
/* The run (its number) was another session's: its processes are known already. Within a
 * transaction. 0 or a negative errno. */
int sample_writer_inherit(struct sample_writer *writer, int64_t run);

/* Within a transaction. Command lines in the snapshot are redacted. */
int sample_writer_write(struct sample_writer *writer, struct snapshot *snapshot);
/* The transaction is in the database; or it failed, and nothing of it is there. */
void sample_writer_commit(struct sample_writer *writer);
void sample_writer_reset(struct sample_writer *writer);
/* The last of it: folds, rolls up and ends all processes. Within a transaction. */
int sample_writer_end(struct sample_writer *writer);

/* For sample-writer.c, in gpu-job-writer.c: what belongs to the snapshot that is being written. */
int sample_writer_add_gpu(struct sample_writer *writer, const struct gpu_metric *gpu);
int sample_writer_add_usage(struct sample_writer *writer, const struct job_usage *usage);
