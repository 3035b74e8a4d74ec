#include "store/event-writer.h"

#include "base/macros.h"

int event_writer_init(struct event_writer *writer, struct database *database,
                      const struct schema *schema, struct text_pool *texts, struct run_table *runs,
                      int64_t session)
{
    *writer = (struct event_writer){
        .database = database, .schema = schema, .texts = texts, .runs = runs, .session = session};
    folded_events_init(&writer->folded, database, session);
    return schema_prepare_insert(database, "INSERT", "event", "run", 1, &schema->event,
                                 &writer->insert);
}

void event_writer_done(struct event_writer *writer)
{
    folded_events_done(&writer->folded);
    sqlite3_finalize(writer->insert);
    *writer = (struct event_writer){0};
}

/* A session that takes over a run reports its last moments again, because it does not know how much
 * of them the previous writer stored. Returns 1 if the event is stored already. An event from a
 * time when the previous writer folded a storm is either in its counts or was stored beside them.
 */
static int is_repeated(struct event_writer *writer, const struct run_row *run,
                       const struct process_event *event)
{
    static const char sql[] =
        "SELECT 1 FROM event WHERE run = ?1 AND timestamp BETWEEN ?2 - 0.005 AND ?2 + 0.005"
        " AND pid = ?3 AND event_type = ?4 UNION ALL SELECT 1 FROM folded_events WHERE run = ?1"
        " AND session <> ?5 AND ?2 BETWEEN first AND last LIMIT 1";
    const struct field *type = record_find(&process_event_record, "event_type");
    sqlite3_stmt *query = NULL;
    int64_t one;

    int r = database_prepare(writer->database, sql, &query);
    if (r < 0)
        return r;
    sqlite3_bind_int64(query, 1, run->id);
    sqlite3_bind_double(query, 2, event->timestamp);
    sqlite3_bind_int64(query, 3, event->pid);
    sqlite3_bind_text(query, 4, field_enum_name(type, event->event_type), -1, SQLITE_STATIC);
    sqlite3_bind_int64(query, 5, writer->session);
    r = database_step_int(writer->database, query, &one);
    sqlite3_finalize(query);
    return r;
}

static int insert_event(struct event_writer *writer, const struct run_row *run,
                        const struct process_event *event)
{
    column_bind_code(writer->insert, 1, run ? run->id : INT_UNKNOWN);
    int r = columns_bind(&writer->schema->event, event, writer->texts, writer->insert, 2);
    return r < 0 ? r : database_run(writer->database, writer->insert);
}

static int write_event(struct event_writer *writer, const struct process_event *event)
{
    struct run_row *run = NULL;
    int must_fold = 0;

    int r = event->run_id ? run_table_get(writer->runs, event->run_id, event->job_id, &run) : 0;
    if (r == 0 && run && writer->repeat_ticks)
        r = is_repeated(writer, run, event);
    if (r != 0)
        return MIN(r, 0);
    /* Events of steps and events outside of runs are too few for a storm. */
    if (run && event->is_step != TRUTH_YES)
        must_fold = folded_events_must_fold(&writer->folded, run->id, event);
    if (must_fold < 0)
        return must_fold;
    r = must_fold ? folded_events_add(&writer->folded, run->id, event)
                  : insert_event(writer, run, event);
    if (r == 0 && run)
        run_table_add_event(run, event);
    return r;
}

int event_writer_write(struct event_writer *writer, const struct process_event_list *events)
{
    int r = 0;

    folded_events_begin(&writer->folded, events);
    for (size_t i = 0; i < events->count && r == 0; i++)
        r = write_event(writer, &events->items[i]);
    return r < 0 ? r : folded_events_write(&writer->folded);
}
