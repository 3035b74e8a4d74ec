/* Writes snapshots: the samples that have changed, a keyframe with all samples every KEYFRAME_TICKS
 * ticks, and what each sample adds to the roll-ups of minutes, runs and steps.
 *
 * It keeps the last written sample of each process in memory. When a transaction is rolled back,
 * memory and database differ: after sample_writer_reset(), the next snapshot is written completely,
 * like the first one of a session. */
#pragma once

#include "base/map.h"
#include "store/inherited-processes.h"
#include "store/minute-roller.h"
#include "store/run-table.h"
#include "store/schema.h"
#include "store/text-pool.h"

/* The distance of keyframes. At a keyframe, the samples before it move from `recent` to `history`.
 */
#define KEYFRAME_TICKS 60

struct sample_writer {
    struct database *database;
    const struct schema *schema;
    struct text_pool *texts;
    struct run_table *runs;
    int64_t session;
    int64_t tick;          /* of the last snapshot */
    int64_t keyframe_tick; /* 0: none yet */
    int64_t age_clock;     /* of that snapshot */
    bool must_restart;     /* the last transaction failed */
    struct map procs;      /* struct proc_row, by pid */
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
                       int64_t session);
void sample_writer_done(struct sample_writer *writer);

/* Continues the counters of the processes of a run (its row in `jobs`) that this session has taken
 * over. Call it within a transaction. Returns 0 or a negative errno. */
int sample_writer_inherit(struct sample_writer *writer, int64_t run);

/* Writes a snapshot. Call it within a transaction. Returns 0 or a negative errno. */
int sample_writer_write(struct sample_writer *writer, const struct snapshot *snapshot);
/* Call after the transaction: it was committed, or rolled back. */
void sample_writer_commit(struct sample_writer *writer);
void sample_writer_reset(struct sample_writer *writer);
/* Ends the session's samples: folds them, rolls up the last minute and ends all processes. Call it
 * within a transaction. Returns 0 or a negative errno. */
int sample_writer_end(struct sample_writer *writer);

/* In gpu-job-writer.c, for sample-writer.c: write a row of the current snapshot. */
int sample_writer_add_gpu(struct sample_writer *writer, const struct gpu_metric *gpu);
int sample_writer_add_usage(struct sample_writer *writer, const struct job_usage *usage);
