/* Adds the result of a tracer to a process that is already stored: to its last row and its end. */
#pragma once

#include "store/schema.h"
#include "store/store.h"
#include "store/text-pool.h"

struct trace_writer {
    struct database *database;
    const struct schema *schema;
    struct text_pool *texts;
    int64_t session;
    int64_t tick; /* of the last snapshot of the session */
};

/* Update the last sample of the process, and the details of its exit. A process or an exit that is
 * not stored is ignored. Call it within a transaction. Returns 0 or a negative errno. */
int trace_writer_update_row(const struct trace_writer *writer, const struct process_trace *trace);
int trace_writer_update_end(const struct trace_writer *writer, const struct process_trace *trace);
