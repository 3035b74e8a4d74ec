/* Writes process events: one row each in `event`, or, during a storm, counts in `folded_events`. */
#pragma once

#include "store/folded-events.h"
#include "store/run-table.h"
#include "store/text-pool.h"

struct event_writer {
    struct database *database;
    const struct schema *schema;
    struct text_pool *texts;
    struct run_table *runs;
    int64_t session;
    struct folded_events folded;
    sqlite3_stmt *insert;
    /* After this session took over a run: ticks whose events may be stored already. The owner
     * counts them down. */
    unsigned repeat_ticks;
};

/* Initialises a writer; the pointers must outlive it. Returns 0 or a negative errno; call
 * event_writer_done() in both cases. */
int event_writer_init(struct event_writer *writer, struct database *database,
                      const struct schema *schema, struct text_pool *texts, struct run_table *runs,
                      int64_t session);
void event_writer_done(struct event_writer *writer);

/* Writes the events of a tick and adds them to the figures of their runs. Call it within a
 * transaction. Returns 0 or a negative errno. */
int event_writer_write(struct event_writer *writer, const struct process_event_list *events);
