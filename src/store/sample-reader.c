#include "store/sample-reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "store/rows.h"

/* The latest row of each process alive at tick ?2 (from ?3 on, for a minute) of session ?1. */
static const char *const latest_rows[] = {
    /* A bare column beside max() is that of the row with the maximum: one pass for all. */
    [FROM_RECENT] = " FROM (SELECT *, max(tick) FROM recent WHERE session = ?1 AND tick <= ?2"
                    " GROUP BY proc) x JOIN proc p ON p.id = x.proc AND p.first_tick <= ?2"
                    " AND p.last_tick >= ?3",
    [FROM_HISTORY] = " FROM proc p JOIN history x ON x.proc = p.id AND x.tick ="
                     " (SELECT max(h.tick) FROM history h WHERE h.proc = p.id AND h.tick <= ?2)"
                     " AND p.session = ?1 AND p.first_tick <= ?2 AND p.last_tick >= ?3",
    [FROM_MINUTES] = " FROM proc p JOIN minute x ON x.proc = p.id AND x.tick ="
                     " (SELECT max(h.tick) FROM minute h WHERE h.proc = p.id AND h.tick <= ?2)"
                     " AND p.session = ?1 AND p.first_tick <= ?2 AND p.last_tick >= ?3",
};

/* ---- statements ---- */

/* What read_process() wants to find. */
#define PROCESS_OWN       "p.start_ticks, j.job_id, j.run_id, "
#define PROCESS_OWN_COUNT 3

static void select_process(const struct schema *schema, struct text *sql)
{
    text_append_string(sql, PROCESS_OWN);
    columns_list(&schema->life, sql, column_select, "p");
    text_append_string(sql, ", ");
    columns_list(&schema->sample, sql, column_select, "x");
}

static int prepare_processes(struct sample_reader *reader, enum sample_source source)
{
    _cleanup_text_ struct text sql = {0};

    text_append_string(&sql, "SELECT ");
    select_process(reader->schema, &sql);
    text_append_string(&sql, latest_rows[source]);
    text_append_string(&sql, " LEFT JOIN jobs j ON j.id = p.run ORDER BY p.pid, p.id");
    return database_prepare_text(reader->database, &sql, &reader->processes[source]);
}

static int prepare_gpus(struct sample_reader *reader, const char *table, sqlite3_stmt **ret)
{
    _cleanup_text_ struct text sql = {0};

    text_append_string(&sql, "SELECT ");
    columns_list(&reader->schema->gpu, &sql, column_select, "g");
    text_printf(&sql, " FROM %s g WHERE g.session = ?1 AND g.tick = ?2 ORDER BY g.\"index\"",
                table);
    return database_prepare_text(reader->database, &sql, ret);
}

static int prepare_usages(struct sample_reader *reader, const char *table, sqlite3_stmt **ret)
{
    _cleanup_text_ struct text sql = {0};

    text_append_string(&sql, "SELECT j.job_id, j.run_id, ");
    columns_list(&reader->schema->usage, &sql, column_select, "u");
    text_printf(&sql,
                " FROM %s u JOIN jobs j ON j.id = u.run WHERE u.session = ?1 AND u.tick = ?2"
                " ORDER BY u.run",
                table);
    return database_prepare_text(reader->database, &sql, ret);
}

int sample_reader_init(struct sample_reader *reader, struct database *database,
                       const struct schema *schema)
{
    int r = 0;

    *reader = (struct sample_reader){.database = database, .schema = schema};
    for (int source = 0; source < SAMPLE_SOURCES && r == 0; source++)
        r = prepare_processes(reader, (enum sample_source)source);
    if (r == 0)
        r = prepare_gpus(reader, "gpu", &reader->gpus[0]);
    if (r == 0)
        r = prepare_gpus(reader, "gpu_minute", &reader->gpus[1]);
    if (r == 0)
        r = prepare_usages(reader, "usage", &reader->usages[0]);
    if (r == 0)
        r = prepare_usages(reader, "usage_minute", &reader->usages[1]);
    return r;
}

void sample_reader_done(struct sample_reader *reader)
{
    for (size_t i = 0; i < ARRAY_SIZE(reader->processes); i++)
        sqlite3_finalize(reader->processes[i]);
    for (size_t i = 0; i < ARRAY_SIZE(reader->gpus); i++) {
        sqlite3_finalize(reader->gpus[i]);
        sqlite3_finalize(reader->usages[i]);
    }
    *reader = (struct sample_reader){0};
}

/* ---- rows ---- */

/* Where a snapshot's parts are. */
struct snap_place {
    const struct schema *schema;
    enum sample_source source;
    int64_t session;
    int64_t from_tick;
    int64_t tick;
    int64_t age_clock;
};

/* From column `at` on. The age is what the clock says less the start, where none is stored. */
static int read_process_at(const struct schema *schema, sqlite3_stmt *row, int at,
                           int64_t age_clock, struct arena *arena, struct process_metric *ret)
{
    int life_at = at + PROCESS_OWN_COUNT;
    int sample_at = life_at + (int)schema->life.count;

    record_init(&process_metric_record, ret);
    ret->start_ticks = (uint64_t)sqlite3_column_int64(row, at);
    int r = row_read_text(row, at + 1, arena, &ret->job_id);
    if (r == 0)
        r = row_read_text(row, at + 2, arena, &ret->run_id);
    if (r == 0)
        r = row_read_columns(&schema->life, row, life_at, arena, ret);
    if (r == 0)
        r = row_read_columns(&schema->sample, row, sample_at, arena, ret);
    if (ret->age_seconds < 0)
        ret->age_seconds = REAL_UNKNOWN;
    else if (!real_is_known(ret->age_seconds) && int_is_known(age_clock))
        column_set_code(columns_find(&schema->sample, "age_seconds"),
                        age_clock - (int64_t)ret->start_ticks, ret);
    return r;
}

static int read_process(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct snap_place *place = context;
    return read_process_at(place->schema, row, 0, place->age_clock, arena, item);
}

static int read_gpu(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct snap_place *place = context;

    record_init(&gpu_metric_record, item);
    return row_read_columns(&place->schema->gpu, row, 0, arena, item);
}

static int read_usage(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct snap_place *place = context;
    struct job_usage *usage = item;

    record_init(&job_usage_record, usage);
    int r = row_read_text(row, 0, arena, &usage->job_id);
    if (r == 0)
        r = row_read_text(row, 1, arena, &usage->run_id);
    return r < 0 ? r : row_read_columns(&place->schema->usage, row, 2, arena, usage);
}

/* ---- a snapshot ---- */

/* The columns before those of the record. */
#define SNAP_OWN                                                                                   \
    " AS is_minute, s.id, s.session, s.tick, s.age_clock, e.host, e.pid, e.interval_seconds,"      \
    " e.folded_tick, "
#define SNAP_OWN_COUNT 10

static void select_snaps(const struct schema *schema, struct text *sql)
{
    text_append_string(sql, "SELECT s.tick AS from_tick, 0" SNAP_OWN);
    columns_list(&schema->snapshot, sql, column_select, "s");
    text_append_string(sql, " FROM snap s JOIN sessions e ON e.id = s.session"
                            " WHERE s.timestamp >= ?1 AND s.tick >= e.full_from"
                            " UNION ALL SELECT s.from_tick, 1" SNAP_OWN);
    columns_list(&schema->snapshot, sql, column_select, "s");
    text_append_string(sql, " FROM snap_minute s JOIN sessions e ON e.id = s.session"
                            " WHERE s.timestamp >= ?1 AND s.tick < e.full_from"
                            " AND s.tick >= e.minute_from ORDER BY timestamp, 3 LIMIT ?2");
}

static int read_snap_row(struct snap_place *place, sqlite3_stmt *row, struct snapshot *snapshot)
{
    bool is_minute = sqlite3_column_int(row, 1);
    int64_t folded_tick = sqlite3_column_int64(row, 9);

    place->from_tick = sqlite3_column_int64(row, 0);
    place->session = sqlite3_column_int64(row, 3);
    place->tick = sqlite3_column_int64(row, 4);
    place->age_clock = row_read_int(row, 5);
    if (is_minute)
        place->source = FROM_MINUTES;
    else
        place->source = place->tick <= folded_tick ? FROM_HISTORY : FROM_RECENT;
    snapshot->id = sqlite3_column_int64(row, 2);
    snapshot->daemon_pid = row_read_int(row, 7);
    snapshot->resolution_seconds = is_minute ? 60 : row_read_real(row, 8);
    int r = row_read_text(row, 6, &snapshot->arena, &snapshot->host);
    if (r == 0)
        r = row_read_columns(&place->schema->snapshot, row, SNAP_OWN_COUNT, &snapshot->arena,
                             snapshot);
    return r;
}

static int collect_part(struct sample_reader *reader, sqlite3_stmt *rows, size_t item_size,
                        row_reader read, struct snap_place *place, struct arena *arena, void *ret)
{
    sqlite3_bind_int64(rows, 1, place->session);
    sqlite3_bind_int64(rows, 2, place->tick);
    sqlite3_bind_int64(rows, 3, place->from_tick);
    return rows_collect(reader->database, rows, item_size, read, place, arena, ret);
}

static int read_snapshot(struct sample_reader *reader, sqlite3_stmt *row, struct snapshot **ret)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    struct snap_place place = {.schema = reader->schema};

    if (!snapshot)
        return database_fail_with(reader->database, -ENOMEM, "no memory left");
    int r = read_snap_row(&place, row, snapshot);
    bool is_minute = place.source == FROM_MINUTES;
    if (r == 0)
        r = collect_part(reader, reader->processes[place.source], sizeof(struct process_metric),
                         read_process, &place, &snapshot->arena, &snapshot->processes);
    if (r == 0)
        r = collect_part(reader, reader->gpus[is_minute], sizeof(struct gpu_metric), read_gpu,
                         &place, &snapshot->arena, &snapshot->gpus);
    if (r == 0)
        r = collect_part(reader, reader->usages[is_minute], sizeof(struct job_usage), read_usage,
                         &place, &snapshot->arena, &snapshot->jobs);
    if (r == 0)
        *ret = TAKE_PTR(snapshot);
    return r;
}

/* Inclusive, at the resolution that times are stored at. */
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

    select_snaps(reader->schema, &sql);
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

/* ---- the history of a pid ---- */

static void select_points(const struct schema *schema, bool with_start, struct text *sql)
{
    for (int source = 0; source < SAMPLE_SOURCES; source++) {
        text_printf(sql, "%sSELECT s.timestamp AS timestamp, %s, s.age_clock, ",
                    source ? " UNION ALL " : "",
                    schema_source_resolution((enum sample_source)source));
        select_process(schema, sql);
        schema_write_source((enum sample_source)source, sql);
        text_printf(sql, " AND p.pid = ?1 AND s.timestamp >= ?2%s",
                    with_start ? " AND p.start_time = ?4" : "");
    }
    text_append_string(sql, " ORDER BY timestamp LIMIT ?3");
}

static int read_point(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    struct process_point *point = item;

    point->timestamp = row_read_real(row, 0);
    point->resolution_seconds = row_read_real(row, 1);
    return read_process_at(context, row, 3, row_read_int(row, 2), arena, &point->process);
}

int sample_reader_process(struct sample_reader *reader, int64_t pid, double start_time,
                          double since, size_t limit, struct arena *arena,
                          struct process_point_list *ret)
{
    const struct schema *schema = reader->schema;
    const struct process_metric wanted = {.start_time = start_time};
    bool with_start = real_is_known(start_time);
    _cleanup_text_ struct text sql = {0};
    struct any_list list;
    sqlite3_stmt *rows = NULL;

    select_points(schema, with_start, &sql);
    int r = database_prepare_text(reader->database, &sql, &rows);
    if (r < 0)
        return r;
    sqlite3_bind_int64(rows, 1, pid);
    bind_since(reader, rows, 2, since);
    sqlite3_bind_int64(rows, 3, (int64_t)limit);
    if (with_start)
        column_bind_code(rows, 4, column_code(columns_find(&schema->life, "start_time"), &wanted));
    struct schema *context = (struct schema *)(uintptr_t)schema;
    r = rows_collect(reader->database, rows, sizeof(struct process_point), read_point, context,
                     arena, &list);
    sqlite3_finalize(rows);
    if (r == 0)
        *ret = (struct process_point_list){.items = list.items, .count = list.count};
    return r;
}

/* ---- rolling up what was left ---- */

/* The ticks that were not rolled up. Not more than a minute: each is written by the first tick
 * after it. */
struct rest {
    int64_t session;
    int64_t from_tick;
    int64_t last_tick; /* less than from_tick: there are none */
};

static int find_rest(struct database *database, struct rest *rest)
{
    sqlite3_stmt *ask = NULL;

    int r = database_prepare(database,
                             "SELECT (SELECT rolled_tick FROM sessions WHERE id = ?1) + 1,"
                             " COALESCE((SELECT max(tick) FROM snap WHERE session = ?1), 0)",
                             &ask);
    if (r < 0)
        return r;
    sqlite3_bind_int64(ask, 1, rest->session);
    r = database_step(database, ask);
    if (r > 0) {
        rest->from_tick = sqlite3_column_int64(ask, 0);
        rest->last_tick = sqlite3_column_int64(ask, 1);
    }
    sqlite3_finalize(ask);
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
        return database_fail_with(database, -ENOMEM, "no memory left");
    text_append_string(&sql, "SELECT s.id, s.tick, s.child_count, s.age_clock, ");
    columns_list(&schema->snapshot, &sql, column_select, "s");
    text_append_string(&sql, " FROM snap s WHERE s.session = ?1 AND s.tick >= ?2"
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
            minute_roller_go_on(roller, machine, &key);
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
    text_printf(&sql, " FROM %s WHERE session = ?1 AND tick >= ?2 AND tick <= ?3 ORDER BY tick",
                table);
    int r = prepare_rest(database, &sql, rest, &rows);
    while (r == 0 && (r = database_step(database, rows)) > 0) {
        read_codes(group->columns, rows, 1, codes);
        r = minute_roller_add(group, (uint64_t)sqlite3_column_int64(rows, 0), codes, 1);
    }
    sqlite3_finalize(rows);
    return r;
}

/* The rows of one process, each of which holds until the next one, or until its end. */
static int replay_process(struct database *database, sqlite3_stmt *rows, int64_t proc,
                          int64_t from_tick, int64_t end_tick, struct roll_group *group)
{
    int64_t codes[COLUMNS_MAX], held_from = INT_UNKNOWN;
    int r;

    sqlite3_bind_int64(rows, 1, proc);
    while ((r = database_step(database, rows)) > 0) {
        int64_t tick = MAX(row_read_int(rows, 0), from_tick);
        if (int_is_known(held_from))
            r = minute_roller_add(group, (uint64_t)proc, codes, tick - held_from);
        if (r < 0)
            break;
        read_codes(group->columns, rows, 1, codes);
        held_from = tick;
    }
    sqlite3_reset(rows);
    if (r == 0 && int_is_known(held_from))
        r = minute_roller_add(group, (uint64_t)proc, codes, end_tick - held_from);
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
                             " CASE WHEN last_tick < ?3 THEN (SELECT age_clock FROM snap s"
                             "  WHERE s.session = ?1 AND s.tick = last_tick) - start_ticks END"
                             " FROM proc WHERE session = ?1 AND last_tick >= ?2"
                             " AND first_tick <= ?3");
    int r = prepare_rest(database, &sql, rest, &procs);
    if (r == 0)
        r = prepare_process_rows(database, group->columns, rest, &rows);
    while (r == 0 && (r = database_step(database, procs)) > 0) {
        int64_t proc = row_read_int(procs, 0), age = row_read_int(procs, 3);
        r = replay_process(database, rows, proc, row_read_int(procs, 1), row_read_int(procs, 2),
                           group);
        if (int_is_known(age)) /* it was over before the minute was */
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
    return r == -ENOMEM ? database_fail_with(database, r, "no memory left") : r;
}
