/* Reads snapshots: the machine, its GPUs and jobs, and the latest row of each process that was
 * alive. */
#pragma once

#include "store/minute-roller.h"
#include "store/schema.h"
#include "store/store.h"

struct sample_reader {
    struct database *database;
    const struct schema *schema;
    struct columns process; /* of the view process_metrics */
    sqlite3_stmt *processes;
    sqlite3_stmt *gpus;
    sqlite3_stmt *usages;
};

int sample_reader_init(struct sample_reader *reader, struct database *database,
                       const struct schema *schema);
void sample_reader_done(struct sample_reader *reader);

/* See store_read_snapshots(), store_read_snapshot(), store_read_marks() and store_read_process().
 */
int sample_reader_snapshots(struct sample_reader *reader, double since, size_t limit,
                            struct snapshot_list *ret);
int sample_reader_snapshot(struct sample_reader *reader, int64_t id, struct snapshot **ret);
int sample_reader_marks(struct sample_reader *reader, double since, size_t limit,
                        struct arena *arena, struct snapshot_mark_list *ret);
int sample_reader_process(struct sample_reader *reader, int64_t pid, double start_time,
                          double since, size_t limit, struct arena *arena,
                          struct process_point_list *ret);

/* Adds the samples of a session that are folded but not rolled up to a roller. Returns 0 or a
 * negative errno. */
int sample_reader_replay(struct database *database, const struct schema *schema, int64_t session,
                         struct minute_roller *roller);
