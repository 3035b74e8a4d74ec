#include "store/sample-reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "store/rows.h"

/* ---- statements ---- */

/* The columns of the view process_metrics: values in their units, whole texts. */
static void select_process(struct sample_reader *reader, struct text *sql)
{
    text_append_string(sql, "start_ticks, ");
    columns_list(&reader->process, sql, column_name, "");
}

static int prepare_processes(struct sample_reader *reader)
{
    _cleanup_text_ struct text sql = {0};

    text_append_string(&sql, "SELECT ");
    select_process(reader, &sql);
    text_append_string(&sql, " FROM process_metrics WHERE snapshot_id = ?1 ORDER BY pid, id");
    return database_prepare_text(reader->database, &sql, &reader->processes);
}

static int prepare_gpus(struct sample_reader *reader)
{
    _cleanup_text_ struct text sql = {0};

    text_append_string(&sql, "SELECT ");
    columns_list(&reader->schema->gpu, &sql, column_select, "g");
    text_append_string(&sql, " FROM snap s JOIN gpu g ON g.session = s.session"
                             " AND g.is_minute = s.is_minute AND g.tick = s.tick"
                             " WHERE s.id = ?1 ORDER BY g.\"index\"");
    return database_prepare_text(reader->database, &sql, &reader->gpus);
}

static int prepare_usages(struct sample_reader *reader)
{
    _cleanup_text_ struct text sql = {0};

    text_append_string(&sql, "SELECT j.job_id, j.run_id, ");
    columns_list(&reader->schema->usage, &sql, column_select, "u");
    text_append_string(&sql, " FROM snap s JOIN usage u ON u.session = s.session"
                             " AND u.is_minute = s.is_minute AND u.tick = s.tick"
                             " JOIN jobs j ON j.id = u.run WHERE s.id = ?1 ORDER BY u.run");
    return database_prepare_text(reader->database, &sql, &reader->usages);
}

int sample_reader_init(struct sample_reader *reader, struct database *database,
                       const struct schema *schema)
{
    *reader = (struct sample_reader){.database = database, .schema = schema};
    columns_add(&reader->process, &process_metric_record, 0, COLUMN_PLAIN, COLUMN_PLAIN, NULL);
    int r = prepare_processes(reader);
    if (r == 0)
        r = prepare_gpus(reader);
    if (r == 0)
        r = prepare_usages(reader);
    return r;
}

void sample_reader_done(struct sample_reader *reader)
{
    sqlite3_finalize(reader->processes);
    sqlite3_finalize(reader->gpus);
    sqlite3_finalize(reader->usages);
    *reader = (struct sample_reader){0};
}

/* ---- rows ---- */

static int read_process_at(const struct sample_reader *reader, sqlite3_stmt *row, int at,
                           struct arena *arena, struct process_metric *ret)
{
    record_init(&process_metric_record, ret);
    ret->start_ticks = (uint64_t)sqlite3_column_int64(row, at);
    return row_read_columns(&reader->process, row, at + 1, arena, ret);
}

static int read_process(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    return read_process_at(context, row, 0, arena, item);
}

static int read_gpu(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct sample_reader *reader = context;

    record_init(&gpu_metric_record, item);
    return row_read_columns(&reader->schema->gpu, row, 0, arena, item);
}

static int read_usage(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct sample_reader *reader = context;
    struct job_usage *usage = item;

    record_init(&job_usage_record, usage);
    int r = row_read_text(row, 0, arena, &usage->job_id);
    if (r == 0)
        r = row_read_text(row, 1, arena, &usage->run_id);
    return r < 0 ? r : row_read_columns(&reader->schema->usage, row, 2, arena, usage);
}

/* ---- a snapshot ---- */

/* The columns before those of the record. */
#define SNAP_OWN       "s.id, e.host, e.pid, " SNAPSHOT_RESOLUTION ", "
#define SNAP_OWN_COUNT 4

#define SNAP_FROM " FROM snap s JOIN sessions e ON e.id = s.session WHERE " SNAPSHOT_COUNTS

static void select_snaps(const struct schema *schema, const char *which, struct text *sql)
{
    text_append_string(sql, "SELECT " SNAP_OWN);
    columns_list(&schema->snapshot, sql, column_select, "s");
    text_printf(sql, SNAP_FROM " AND %s", which);
}

static int read_snap_row(const struct schema *schema, sqlite3_stmt *row, struct snapshot *snapshot)
{
    snapshot->id = sqlite3_column_int64(row, 0);
    snapshot->daemon_pid = row_read_int(row, 2);
    snapshot->resolution_seconds = row_read_real(row, 3);
    int r = row_read_text(row, 1, &snapshot->arena, &snapshot->host);
    if (r == 0)
        r = row_read_columns(&schema->snapshot, row, SNAP_OWN_COUNT, &snapshot->arena, snapshot);
    return r;
}

static int collect_part(struct sample_reader *reader, sqlite3_stmt *rows, size_t item_size,
                        row_reader read, struct snapshot *snapshot, void *ret)
{
    sqlite3_bind_int64(rows, 1, snapshot->id);
    return rows_collect(reader->database, rows, item_size, read, reader, &snapshot->arena, ret);
}

static int read_snapshot(struct sample_reader *reader, sqlite3_stmt *row, struct snapshot **ret)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();

    if (!snapshot)
        return database_fail_errno(reader->database, -ENOMEM);
    int r = read_snap_row(reader->schema, row, snapshot);
    if (r == 0)
        r = collect_part(reader, reader->processes, sizeof(struct process_metric), read_process,
                         snapshot, &snapshot->processes);
    if (r == 0)
        r = collect_part(reader, reader->gpus, sizeof(struct gpu_metric), read_gpu, snapshot,
                         &snapshot->gpus);
    if (r == 0)
        r = collect_part(reader, reader->usages, sizeof(struct job_usage), read_usage, snapshot,
                         &snapshot->jobs);
    if (r == 0)
        *ret = TAKE_PTR(snapshot);
    return r;
}

/* Rounds to the resolution of stored times, so that the bound is inclusive. */
static void bind_since(const struct sample_reader *reader, sqlite3_stmt *rows, int at, double since)
{
    const struct column *timestamp = columns_find(&reader->schema->snapshot, "timestamp");
    sqlite3_bind_double(rows, at, column_round(timestamp, since));
}

int sample_reader_snapshots(struct sample_reader *reader, double since, size_t limit,
                            struct snapshot_list *ret)
{
    _cleanup_text_ struct text sql = {0};
    struct VEC(struct snapshot *) list = {0};
    sqlite3_stmt *rows = NULL;

    select_snaps(reader->schema, "s.timestamp >= ?1 ORDER BY s.timestamp, s.id LIMIT ?2", &sql);
    int r = database_prepare_text(reader->database, &sql, &rows);
    if (r < 0)
        return r;
    bind_since(reader, rows, 1, since);
    sqlite3_bind_int64(rows, 2, (int64_t)limit);
    while ((r = database_step(reader->database, rows)) > 0) {
        struct snapshot *snapshot = NULL;
        r = read_snapshot(reader, rows, &snapshot);
        if (r == 0)
            r = VEC_PUSH(&list, snapshot);
        if (r < 0) {
            snapshot_free(snapshot);
            break;
        }
    }
    sqlite3_finalize(rows);
    struct snapshot_list found = {.items = list.items, .count = list.count};
    if (r < 0)
        snapshot_list_done(&found);
    else
        *ret = found;
    return r;
}

int sample_reader_snapshot(struct sample_reader *reader, int64_t id, struct snapshot **ret)
{
    _cleanup_text_ struct text sql = {0};
    sqlite3_stmt *rows = NULL;

    select_snaps(reader->schema, "s.id = ?1", &sql);
    int r = database_prepare_text(reader->database, &sql, &rows);
    if (r < 0)
        return r;
    sqlite3_bind_int64(rows, 1, id);
    r = database_step(reader->database, rows);
    if (r > 0)
        r = read_snapshot(reader, rows, ret);
    else if (r == 0)
        r = -ENOENT;
    sqlite3_finalize(rows);
    return r;
}

static int read_mark(void *context _unused_, sqlite3_stmt *row, struct arena *arena _unused_,
                     void *item)
{
    *(struct snapshot_mark *)item =
        (struct snapshot_mark){.id = row_read_int(row, 0),
                               .session = row_read_int(row, 1),
                               .timestamp = row_read_real(row, 2),
                               .resolution_seconds = row_read_real(row, 3)};
    return 0;
}

int sample_reader_marks(struct sample_reader *reader, double since, size_t limit,
                        struct arena *arena, struct snapshot_mark_list *ret)
{
    _cleanup_text_ struct text sql = {0};
    struct any_list list;
    sqlite3_stmt *rows = NULL;

    text_append_string(&sql, "SELECT s.id, s.session, ");
    column_express(columns_find(&reader->schema->snapshot, "timestamp"), "s", &sql);
    text_append_string(&sql, ", " SNAPSHOT_RESOLUTION SNAP_FROM " AND s.timestamp >= ?1"
                             " ORDER BY s.timestamp, s.id LIMIT ?2");
    int r = database_prepare_text(reader->database, &sql, &rows);
    if (r < 0)
        return r;
    bind_since(reader, rows, 1, since);
    sqlite3_bind_int64(rows, 2, (int64_t)limit);
    r = rows_collect(reader->database, rows, sizeof(struct snapshot_mark), read_mark, reader, arena,
                     &list);
    sqlite3_finalize(rows);
    if (r == 0)
        *ret = (struct snapshot_mark_list){.items = list.items, .count = list.count};
    return r;
}

/* ---- the history of a pid ---- */

static int read_point(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    struct process_point *point = item;

    point->timestamp = row_read_real(row, 0);
    point->resolution_seconds = row_read_real(row, 1);
    return read_process_at(context, row, 2, arena, &point->process);
}

int sample_reader_process(struct sample_reader *reader, int64_t pid, double start_time,
                          double since, size_t limit, struct arena *arena,
                          struct process_point_list *ret)
{
    const struct process_metric wanted = {.start_time = start_time};
    bool with_start = real_is_known(start_time);
    _cleanup_text_ struct text sql = {0};
    struct any_list list;
    sqlite3_stmt *rows = NULL;

    text_append_string(&sql, "SELECT timestamp, resolution_seconds, ");
    select_process(reader, &sql);
    text_printf(&sql,
                " FROM process_metrics WHERE pid = ?1 AND timestamp >= ?2%s"
                " ORDER BY timestamp, snapshot_id LIMIT ?3",
                with_start ? " AND start_time = ?4" : "");
    int r = database_prepare_text(reader->database, &sql, &rows);
    if (r < 0)
        return r;
    sqlite3_bind_int64(rows, 1, pid);
    bind_since(reader, rows, 2, since);
    sqlite3_bind_int64(rows, 3, (int64_t)limit);
    if (with_start) /* rounded like the stored value */
        r = column_bind(columns_find(&reader->process, "start_time"), &wanted, NULL, rows, 4);
    if (r == 0)
        r = rows_collect(reader->database, rows, sizeof(struct process_point), read_point, reader,
                         arena, &list);
    sqlite3_finalize(rows);
    if (r == 0)
        *ret = (struct process_point_list){.items = list.items, .count = list.count};
    return r;
}

/* ---- replaying samples that were not rolled up ---- */

/* The ticks of a session that were not rolled up: a minute at most, because the first tick after a
 * minute rolls it up. */
struct rest {
    int64_t session;
    int64_t from_tick;
    int64_t last_tick; /* less than from_tick: none */
};

static int find_rest(struct database *database, struct rest *rest)
{
    sqlite3_stmt *query = NULL;

    int r = database_prepare(database,
                             "SELECT (SELECT rolled_tick FROM sessions WHERE id = ?1) + 1,"
                             " COALESCE((SELECT max(tick) FROM snap WHERE session = ?1"
                             " AND is_minute = 0), 0)",
                             &query);
    if (r < 0)
        return r;
    sqlite3_bind_int64(query, 1, rest->session);
    r = database_step(database, query);
    if (r > 0) {
        rest->from_tick = sqlite3_column_int64(query, 0);
        rest->last_tick = sqlite3_column_int64(query, 1);
    }
    sqlite3_finalize(query);
    return MIN(r, 0);
}

static int prepare_rest(struct database *database, struct text *sql, const struct rest *rest,
                        sqlite3_stmt **ret)
{
    int r = database_prepare_text(database, sql, ret);
    if (r == 0) {
        sqlite3_bind_int64(*ret, 1, rest->session);
        sqlite3_bind_int64(*ret, 2, rest->from_tick);
        sqlite3_bind_int64(*ret, 3, rest->last_tick);
    }
    return r;
}

static int replay_machine(struct database *database, const struct schema *schema,
                          const struct rest *rest, struct minute_roller *roller)
{
    _cleanup_(snapshot_freep) struct snapshot *machine = snapshot_new();
    _cleanup_text_ struct text sql = {0};
    sqlite3_stmt *rows = NULL;

    if (!machine)
        return database_fail_errno(database, -ENOMEM);
    text_append_string(&sql, "SELECT s.id, s.tick, s.child_count, s.age_clock, ");
    columns_list(&schema->snapshot, &sql, column_select, "s");
    text_append_string(&sql,
                       " FROM snap s WHERE s.session = ?1 AND s.is_minute = 0 AND s.tick >= ?2"
                       " AND s.tick <= ?3 ORDER BY s.tick");
    int r = prepare_rest(database, &sql, rest, &rows);
    while (r == 0 && (r = database_step(database, rows)) > 0) {
        const struct snap_key key = {.id = row_read_int(rows, 0),
                                     .tick = row_read_int(rows, 1),
                                     .child_count = row_read_int(rows, 2),
                                     .age_clock = row_read_int(rows, 3)};
        arena_reset(&machine->arena);
        record_init(&snapshot_record, machine);
        r = row_read_columns(&schema->snapshot, rows, 4, &machine->arena, machine);
        if (r == 0)
            minute_roller_continue(roller, machine, &key);
    }
    sqlite3_finalize(rows);
    return r;
}

static void read_codes(const struct columns *columns, sqlite3_stmt *row, int at, int64_t *codes)
{
    for (size_t i = 0; i < columns->count; i++)
        codes[i] =
            columns->items[i].form == COLUMN_PLAIN ? INT_UNKNOWN : row_read_int(row, at + (int)i);
}

static int replay_rows(struct database *database, const char *key, const char *table,
                       const struct rest *rest, struct roll_group *group)
{
    _cleanup_text_ struct text sql = {0};
    int64_t codes[COLUMNS_MAX];
    sqlite3_stmt *rows = NULL;

    text_printf(&sql, "SELECT %s, ", key);
    columns_list(group->columns, &sql, column_name, "");
    text_printf(&sql,
                " FROM %s WHERE session = ?1 AND is_minute = 0 AND tick >= ?2 AND tick <= ?3"
                " ORDER BY tick",
                table);
    int r = prepare_rest(database, &sql, rest, &rows);
    while (r == 0 && (r = database_step(database, rows)) > 0) {
        read_codes(group->columns, rows, 1, codes);
        r = minute_roller_add(group, (uint64_t)sqlite3_column_int64(rows, 0), codes, 1);
    }
    sqlite3_finalize(rows);
    return r;
}

/* Replays the rows of one process. Each is valid until the next one, or until the process ends. */
static int replay_process(struct database *database, sqlite3_stmt *rows, int64_t proc,
                          int64_t from_tick, int64_t end_tick, struct roll_group *group)
{
    int64_t codes[COLUMNS_MAX], valid_from = INT_UNKNOWN;
    int r;

    sqlite3_bind_int64(rows, 1, proc);
    while ((r = database_step(database, rows)) > 0) {
        int64_t tick = MAX(row_read_int(rows, 0), from_tick);
        if (int_is_known(valid_from))
            r = minute_roller_add(group, (uint64_t)proc, codes, tick - valid_from);
        if (r < 0)
            break;
        read_codes(group->columns, rows, 1, codes);
        valid_from = tick;
    }
    sqlite3_reset(rows);
    if (r == 0 && int_is_known(valid_from))
        r = minute_roller_add(group, (uint64_t)proc, codes, end_tick - valid_from);
    return r;
}

static int prepare_process_rows(struct database *database, const struct columns *columns,
                                const struct rest *rest, sqlite3_stmt **ret)
{
    _cleanup_text_ struct text sql = {0};

    text_append_string(&sql, "SELECT tick, ");
    columns_list(columns, &sql, column_name, "");
    text_append_string(&sql, " FROM history WHERE proc = ?1 AND tick <= ?3 AND tick >= COALESCE("
                             "(SELECT max(tick) FROM history WHERE proc = ?1 AND tick <= ?2), 0)"
                             " ORDER BY tick");
    return prepare_rest(database, &sql, rest, ret);
}

static int replay_processes(struct database *database, const struct rest *rest,
                            struct roll_group *group)
{
    _cleanup_text_ struct text sql = {0};
    sqlite3_stmt *procs = NULL, *rows = NULL;

    text_append_string(&sql, "SELECT id, max(first_tick, ?2), min(last_tick, ?3) + 1,"
                             " CASE WHEN last_tick < ?3 THEN COALESCE((SELECT age_clock FROM snap s"
                             "  WHERE s.session = ?1 AND s.is_minute = 0 AND s.tick = last_tick)"
                             "  - start_ticks, -1) END" /* AGE_UNKNOWN */
                             " FROM proc WHERE session = ?1 AND last_tick >= ?2"
                             " AND first_tick <= ?3");
    int r = prepare_rest(database, &sql, rest, &procs);
    if (r == 0)
        r = prepare_process_rows(database, group->columns, rest, &rows);
    while (r == 0 && (r = database_step(database, procs)) > 0) {
        int64_t proc = row_read_int(procs, 0), age = row_read_int(procs, 3);
        r = replay_process(database, rows, proc, row_read_int(procs, 1), row_read_int(procs, 2),
                           group);
        if (int_is_known(age)) /* it ended before the minute did */
            minute_roller_end(group, (uint64_t)proc, age);
    }
    sqlite3_finalize(procs);
    sqlite3_finalize(rows);
    return r;
}

int sample_reader_replay(struct database *database, const struct schema *schema, int64_t session,
                         struct minute_roller *roller)
{
    struct rest rest = {.session = session, .from_tick = 1};

    int r = find_rest(database, &rest);
    if (r < 0 || rest.last_tick < rest.from_tick)
        return r;
    r = replay_machine(database, schema, &rest, roller);
    if (r == 0)
        r = replay_processes(database, &rest, &roller->processes);
    if (r == 0)
        r = replay_rows(database, "\"index\"", "gpu", &rest, &roller->gpus);
    if (r == 0)
        r = replay_rows(database, "run", "usage", &rest, &roller->usages);
    return r == -ENOMEM ? database_fail_errno(database, r) : r;
}
