#include "store/trace-writer.h"

#include <errno.h>

#include "base/macros.h"
#include "base/text.h"

/* Statements are prepared for each call: traces are rare. */

/* Finds the last row of `proc` of the process, and the tick of its last snapshot. Returns 1, 0
 * (none) or a negative errno. */
static int find_proc(const struct trace_writer *writer, const struct process_trace *trace,
                     int64_t *ret_proc, int64_t *ret_tick)
{
    static const char sql[] = "SELECT id, last_tick FROM proc WHERE session = ?1 AND pid = ?2"
                              " AND start_ticks = ?3 ORDER BY id DESC LIMIT 1";
    sqlite3_stmt *query = NULL;

    int r = database_prepare(writer->database, sql, &query);
    if (r < 0)
        return r;
    sqlite3_bind_int64(query, 1, writer->session);
    sqlite3_bind_int64(query, 2, trace->pid);
    sqlite3_bind_int64(query, 3, (int64_t)trace->start_ticks);
    r = database_step(writer->database, query);
    if (r > 0) {
        *ret_proc = sqlite3_column_int64(query, 0);
        *ret_tick = MIN(sqlite3_column_int64(query, 1), writer->tick);
    }
    sqlite3_finalize(query);
    return r;
}

static int bind_field(const struct trace_writer *writer, const struct columns *columns,
                      const char *name, const struct process_metric *process, sqlite3_stmt *into,
                      int at)
{
    return column_bind(&columns->items[columns_index(columns, name)], process, writer->texts, into,
                       at);
}

/* The tables that a sample can be in: since the last keyframe, or before it. */
struct sample_table {
    const char *table;
    const char *key;   /* of its row at tick ?2 */
    const char *rows;  /* condition for all rows of the process */
    const char *tick;  /* of a row */
    const char *names; /* of the columns of the key, and their values at tick ?2 */
    const char *values;
};

static const struct sample_table sample_tables[] = {
    {.table = "recent",
     .key = "key = ?2 << 32 | ?1",
     .rows = "key & 4294967295 = ?1",
     .tick = "key >> 32",
     .names = "key, session, same",
     .values = "?2 << 32 | ?1, session, 0"},
    {.table = "history",
     .key = "proc = ?1 AND tick = ?2",
     .rows = "proc = ?1",
     .tick = "tick",
     .names = "proc, tick",
     .values = "?1, ?2"},
};

/* A row is valid until the next one. The last row is repeated at the last tick, so that the trace
 * does not apply to earlier ticks. */
static int repeat_last_row(const struct trace_writer *writer, const struct sample_table *table,
                           int64_t proc, int64_t tick)
{
    const struct columns *columns = &writer->schema->sample;
    _cleanup_text_ struct text sql = {0};
    sqlite3_stmt *insert = NULL;

    text_printf(&sql, "INSERT OR IGNORE INTO %s (%s, ", table->table, table->names);
    columns_list(columns, &sql, column_name, "");
    text_printf(&sql, ") SELECT %s, ", table->values);
    columns_list(columns, &sql, column_name, "");
    text_printf(&sql, " FROM %s WHERE %s ORDER BY %s DESC LIMIT 1", table->table, table->rows,
                table->tick);
    int r = database_prepare_text(writer->database, &sql, &insert);
    if (r < 0)
        return r;
    sqlite3_bind_int64(insert, 1, proc);
    sqlite3_bind_int64(insert, 2, tick);
    r = database_run(writer->database, insert);
    sqlite3_finalize(insert);
    return r;
}

/* Returns 1 if the row exists. */
static int update_sample(const struct trace_writer *writer, const struct sample_table *table,
                         const struct process_metric *process, int64_t proc, int64_t tick)
{
    const struct columns *columns = &writer->schema->sample;
    _cleanup_text_ struct text sql = {0};
    sqlite3_stmt *update = NULL;

    text_printf(&sql, "UPDATE %s SET syscall_counts = ?3, syscall_time_pct = ?4%s WHERE %s",
                table->table, table == sample_tables ? ", same = 0" : "", table->key);
    int r = database_prepare_text(writer->database, &sql, &update);
    if (r < 0)
        return r;
    sqlite3_bind_int64(update, 1, proc);
    sqlite3_bind_int64(update, 2, tick);
    r = bind_field(writer, columns, "syscall_counts", process, update, 3);
    if (r == 0)
        r = bind_field(writer, columns, "syscall_time_pct", process, update, 4);
    if (r == 0)
        r = database_run(writer->database, update);
    if (r == 0)
        r = sqlite3_changes(writer->database->handle) > 0;
    sqlite3_finalize(update);
    return r;
}

static int update_last_row(const struct trace_writer *writer, const struct process_metric *process,
                           int64_t proc, int64_t tick)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(sample_tables) && r == 0; i++) {
        r = repeat_last_row(writer, &sample_tables[i], proc, tick);
        if (r == 0)
            r = update_sample(writer, &sample_tables[i], process, proc, tick);
    }
    return r;
}

static int update_source(const struct trace_writer *writer, const struct process_metric *process,
                         int64_t proc)
{
    sqlite3_stmt *update = NULL;

    int r = database_prepare(writer->database, "UPDATE proc SET syscall_source = ?1 WHERE id = ?2",
                             &update);
    if (r < 0)
        return r;
    r = bind_field(writer, &writer->schema->life, "syscall_source", process, update, 1);
    if (r == 0) {
        sqlite3_bind_int64(update, 2, proc);
        r = database_run(writer->database, update);
    }
    sqlite3_finalize(update);
    return r;
}

int trace_writer_update_row(const struct trace_writer *writer, const struct process_trace *trace)
{
    const struct process_metric process = {
        .syscall_counts = trace->syscall_counts,
        .syscall_time_pct = trace->syscall_time_pct,
        .syscall_source = SYSCALLS_STRACE,
    };
    int64_t proc, tick;

    int r = find_proc(writer, trace, &proc, &tick);
    if (r <= 0)
        return r;
    r = update_last_row(writer, &process, proc, tick);
    return r < 0 ? r : update_source(writer, &process, proc);
}

int trace_writer_update_end(const struct trace_writer *writer, const struct process_trace *trace)
{
    static const char sql[] =
        "UPDATE event SET details = ?1 WHERE details IS NULL AND id = (SELECT max(id) FROM event"
        " WHERE run = (SELECT id FROM jobs WHERE run_id = ?2) AND pid = ?3 AND event_type IN "
        "('exit', 'kill') AND is_step IS NULL)";
    sqlite3_stmt *update = NULL;
    int64_t text;

    if (!trace->details || !trace->run_id)
        return 0;
    int r = text_pool_id(writer->texts, trace->details, &text);
    if (r == 0)
        r = database_prepare(writer->database, sql, &update);
    if (r < 0)
        return r;
    sqlite3_bind_int64(update, 1, text);
    sqlite3_bind_text(update, 2, trace->run_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(update, 3, trace->pid);
    r = database_run(writer->database, update);
    sqlite3_finalize(update);
    return r;
}
