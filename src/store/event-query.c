#include "store/event-query.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "store/folded-events.h"
#include "store/query-builder.h"

struct event_reader {
    struct database *database;
    const struct schema *schema;
};

static int read_event(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct event_reader *reader = context;
    struct process_event *event = item;

    record_init(&process_event_record, event);
    int r = row_read_text(row, 0, arena, &event->job_id);
    if (r == 0)
        r = row_read_text(row, 1, arena, &event->run_id);
    event->details_are_calls = false;
    return r < 0 ? r : row_read_columns(&reader->schema->event, row, 2, arena, event);
}

/* The names come from the field table, so that the SQL can contain them. */
static void add_types(struct query_builder *query, const struct column *column, const char *table,
                      unsigned types)
{
    const char *before = "";

    if (!types)
        return;
    text_printf(&query->sql, " AND %s.%s IN (", table, column->name);
    for (int type = EVENT_SPAWN; type <= EVENT_OOM; type++)
        if (types & EVENT_TYPE_BIT(type)) {
            text_printf(&query->sql, "%s'%s'", before, field_enum_name(column->field, type));
            before = ", ";
        }
    text_append_char(&query->sql, ')');
}

static int read_single_events(struct event_reader *reader, const struct event_filter *filter,
                              struct arena *arena, struct any_list *ret)
{
    const struct column *type = columns_find(&reader->schema->event, "event_type");
    const struct column *is_step = columns_find(&reader->schema->event, "is_step");
    struct query_builder query = {0};

    text_append_string(&query.sql, "SELECT j.job_id, j.run_id, ");
    columns_list(&reader->schema->event, &query.sql, column_select, "v");
    text_append_string(&query.sql, " FROM event v LEFT JOIN jobs j ON j.id = v.run WHERE 1");
    query_add_text(&query, " AND v.run = (SELECT id FROM jobs WHERE run_id = ?)", filter->run_id);
    query_add_text(&query, " AND v.run IN (SELECT id FROM jobs WHERE job_id = ?)", filter->job_id);
    query_add_time(&query, &reader->schema->event, "timestamp", " AND v.timestamp >= ?",
                   filter->since);
    query_add_time(&query, &reader->schema->event, "timestamp", " AND v.timestamp <= ?",
                   filter->until);
    query_add_int(&query, " AND v.pid = ?", filter->pid);
    query_add_int(&query, " AND v.run IN (SELECT id FROM jobs WHERE uid = ?)", filter->uid);
    add_types(&query, type, "v", filter->event_types);
    if (filter->event_types && !is_step->is_absent) /* those are types of events of processes */
        text_append_string(&query.sql, " AND v.is_step IS NULL");
    if (filter->only_notable)
        text_append_string(&query.sql, " AND " EVENT_IS_NOTABLE("v."));
    text_append_string(&query.sql, " ORDER BY v.timestamp DESC, v.id DESC");
    query_add_limit(&query, filter->limit);
    return query_run(&query, reader->database, sizeof(struct process_event), read_event, reader,
                     arena, ret);
}

/* States how many of the events the sum of CPU time covers, if not all. */
static int describe_coverage(struct process_event *event, int64_t cpu_count, struct arena *arena)
{
    char text[96];

    if (!real_is_known(event->cpu_seconds) || cpu_count >= event->count)
        return 0;
    snprintf(text, sizeof(text), "CPU time of %lld of them", (long long)cpu_count);
    event->details = arena_strdup(arena, text);
    return event->details ? 0 : -ENOMEM;
}

static int read_folded_event(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct event_reader *reader = context;
    struct process_event *event = item;
    const char *program;

    record_init(&process_event_record, event);
    event->details_are_calls = false;
    event->pid = 0;
    int r = row_read_text(row, 0, arena, &event->job_id);
    if (r == 0)
        r = row_read_text(row, 1, arena, &event->run_id);
    if (r == 0)
        r = row_read_text(row, 2, arena, &program);
    if (r == 0)
        r = column_read(columns_find(&reader->schema->event, "event_type"), row, 3, arena, event);
    if (r < 0)
        return r;
    int64_t code = row_read_int(row, 4);
    event->command = program && program[0] ? program : NULL;
    if (event->event_type == EVENT_EXIT && code >= 0)
        event->exit_code = code;
    else if (code >= 0)
        event->signal_num = code;
    event->count = row_read_int(row, 5);
    event->first_timestamp = row_read_real(row, 6);
    event->timestamp = row_read_real(row, 7);
    event->cpu_seconds = row_read_real(row, 8);
    event->peak_rss_mb = row_read_real(row, 10);
    return describe_coverage(event, row_read_int(row, 9), arena);
}

static double minute_of(double timestamp)
{
    return floor(timestamp / FOLD_SECONDS); /* unknown stays unknown */
}

static int read_folded_events(struct event_reader *reader, const struct event_filter *filter,
                              struct arena *arena, struct any_list *ret)
{
    const struct column *type = columns_find(&reader->schema->event, "event_type");
    const struct column *time = columns_find(&reader->schema->event, "timestamp");
    struct query_builder query = {0};

    text_append_string(&query.sql,
                       "SELECT j.job_id, j.run_id, f.program, f.event_type, f.code, sum(f.count),"
                       " min(f.first), max(f.last), sum(f.cpu_seconds), sum(f.cpu_count),"
                       " max(f.peak_rss_mb) FROM folded_events f LEFT JOIN jobs j ON j.id = f.run"
                       " WHERE 1");
    query_add_text(&query, " AND f.run = (SELECT id FROM jobs WHERE run_id = ?)", filter->run_id);
    query_add_text(&query, " AND f.run IN (SELECT id FROM jobs WHERE job_id = ?)", filter->job_id);
    query_add_number(&query, " AND f.minute >= ?", minute_of(filter->since));
    query_add_number(&query, " AND f.last >= ?", column_round(time, filter->since));
    query_add_number(&query, " AND f.minute <= ?", minute_of(filter->until));
    query_add_number(&query, " AND f.first <= ?", column_round(time, filter->until));
    query_add_int(&query, " AND f.run IN (SELECT id FROM jobs WHERE uid = ?)", filter->uid);
    add_types(&query, type, "f", filter->event_types);
    if (filter->only_notable)
        text_append_string(&query.sql, " AND " FOLD_IS_NOTABLE("f."));
    text_append_string(&query.sql, " GROUP BY f.run, f.program, f.event_type, f.code"
                                   " ORDER BY max(f.last) DESC, f.program, f.event_type, f.code");
    query_add_limit(&query, filter->limit);
    return query_run(&query, reader->database, sizeof(struct process_event), read_folded_event,
                     reader, arena, ret);
}

/* Merges two lists, latest first, into one, oldest first, of the latest `limit` (0: all). */
static int merge_events(const struct any_list *single, const struct any_list *folded, size_t limit,
                        struct arena *arena, struct process_event_list *ret)
{
    const struct process_event *left = single->items, *right = folded->items;
    size_t count = single->count + folded->count, i = 0, k = 0;

    if (limit && count > limit)
        count = limit;
    struct process_event *items = arena_alloc(arena, count * sizeof(*items));
    if (!items)
        return -ENOMEM;
    for (size_t place = count; place > 0; place--) {
        bool is_left =
            k == folded->count || (i < single->count && left[i].timestamp > right[k].timestamp);
        items[place - 1] = is_left ? left[i++] : right[k++];
    }
    *ret = (struct process_event_list){.items = items, .count = count};
    return 0;
}

static void reverse(struct any_list *list)
{
    struct process_event *items = list->items;

    for (size_t i = 0; i < list->count / 2; i++) {
        struct process_event event = items[i];
        items[i] = items[list->count - 1 - i];
        items[list->count - 1 - i] = event;
    }
}

int event_query(struct database *database, const struct schema *schema,
                const struct event_filter *filter, struct arena *arena,
                struct process_event_list *ret)
{
    struct event_reader reader = {.database = database, .schema = schema};
    struct any_list single = {0}, folded = {0};

    int r = filter->only_folded ? 0 : read_single_events(&reader, filter, arena, &single);
    if (r == 0 && !int_is_known(filter->pid))
        r = read_folded_events(&reader, filter, arena, &folded);
    if (r < 0)
        return r;
    if (folded.count) {
        r = merge_events(&single, &folded, filter->limit, arena, ret);
        return r < 0 ? database_fail_errno(database, r) : 0;
    }
    reverse(&single);
    *ret = (struct process_event_list){.items = single.items, .count = single.count};
    return 0;
}
