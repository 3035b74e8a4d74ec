/* What a tracer has told of a process that is stored already: entered after the fact into its last
 * row and its end. */
#pragma once

#include "store/schema.h"
#include "store/store.h"
#include "store/text-pool.h"

struct trace_writer {
    struct database *database;
    const struct schema *schema;
    struct text_pool *texts;
    int64_t session;
    int64_t tick; /* of its last snapshot */
};

/* Within a transaction. What is not stored is left out. 0 or a negative errno. */
int trace_writer_update_row(const struct trace_writer *writer, const struct process_trace *trace);
int trace_writer_update_end(const struct trace_writer *writer, const struct process_trace *trace);
