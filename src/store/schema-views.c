/* The views, which people query: the names of the reference schema, values in their units. */
#include <string.h>

#include "store/schema.h"

static void express_as(const struct column *column, const char *alias, struct text *sql)
{
    column_express(column, alias, sql);
    text_printf(sql, " AS \"%s\"", column->name);
}

/* The columns of the reference, in its order; the others follow. */
static const char *const snapshot_columns_first[] = {
    "timestamp",
    "daemon_pid",
    "system_memory_total_mb",
    "system_memory_available_mb",
    "system_memory_used_mb",
    "daemon_rss_mb",
    "child_count",
    "zombie_count",
    "load_avg_1",
    "load_avg_5",
    "load_avg_15",
    "gpu_count",
    "gpu_utilization_pct",
    "gpu_memory_used_mb",
    "gpu_temperature",
    "pressure_level",
    "running_jobs",
    "active_sheets",
    NULL,
};

static const struct {
    const char *name;
    const char *field;
} gpu_arrays[] = {
    {"gpu_utilization_pct", "utilization_pct"},
    {"gpu_memory_used_mb", "memory_used_mb"},
    {"gpu_temperature", "temperature_c"},
};

#define GPUS_OF_SNAPSHOT                                                                           \
    " FROM gpu g WHERE g.session = s.session AND g.is_minute = s.is_minute AND g.tick = s.tick"

static void write_gpu_array(const struct schema *schema, const char *name, struct text *sql)
{
    const char *field = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(gpu_arrays); i++)
        if (strcmp(gpu_arrays[i].name, name) == 0)
            field = gpu_arrays[i].field;
    if (!field) {
        text_append_string(sql, "(SELECT count(*)" GPUS_OF_SNAPSHOT ")");
        return;
    }
    text_append_string(sql, "(SELECT json_group_array(");
    column_express(columns_find(&schema->gpu, field), "g", sql);
    text_printf(sql, ")" GPUS_OF_SNAPSHOT " AND g.\"%s\" IS NOT NULL)", field);
}

static void write_snapshot_column(const struct schema *schema, const char *name, struct text *sql)
{
    const struct column *column = columns_find(&schema->snapshot, name);

    if (column)
        column_express(column, "s", sql);
    else if (strncmp(name, "gpu_", 4) == 0)
        write_gpu_array(schema, name, sql);
    else if (strcmp(name, "daemon_pid") == 0)
        text_append_string(sql, "e.pid");
    else
        text_printf(sql, "s.%s", name);
    text_printf(sql, " AS %s, ", name);
}

/* One SELECT, not a UNION of two: otherwise the usual queries for the latest row, `max(id)` and
 * `ORDER BY timestamp DESC LIMIT 1`, would scan the whole table. Minutes represent only the ticks
 * before full_from. */
static void write_snapshots_view(const struct schema *schema, struct text *sql)
{
    text_append_string(sql, "CREATE VIEW snapshots AS SELECT s.id AS id, ");
    for (size_t i = 0; snapshot_columns_first[i]; i++)
        write_snapshot_column(schema, snapshot_columns_first[i], sql);
    for (size_t i = 0; i < schema->snapshot.count; i++)
        if (!names_have(snapshot_columns_first, schema->snapshot.items[i].name)) {
            express_as(&schema->snapshot.items[i], "s", sql);
            text_append_string(sql, ", ");
        }
    text_append_string(sql, "e.host AS host,"
                            " " SNAPSHOT_RESOLUTION
                            " AS resolution_seconds, s.session AS session_id, s.tick AS tick"
                            " FROM snap s JOIN sessions e ON e.id = s.session"
                            " WHERE " SNAPSHOT_COUNTS ";\n");
}

/* The columns of the reference, in its order; the others follow. */
static const char *const metric_columns[] = {
    "pid",
    "ppid",
    "command",
    "state",
    "cpu_percent",
    "rss_mb",
    "vms_mb",
    "threads",
    "open_fds",
    "age_seconds",
    "job_id",
    "sheet_num",
    "syscall_counts",
    "syscall_time_pct",
    NULL,
};

/* The value is in one of three tables, depending on the tick; the others have no row. */
static void write_sample_value(const struct column *column, struct text *sql)
{
    _cleanup_text_ struct text value = {0};

    text_printf(&value, "COALESCE(h.\"%s\", r.\"%s\", m.\"%s\")", column->name, column->name,
                column->name);
    if (column->form == COLUMN_STEPS && column->field->type == FIELD_CHAR)
        text_printf(sql, "CASE WHEN %s IS NOT NULL THEN char(%s) END", text_string(&value),
                    text_string(&value));
    else if (column->form == COLUMN_STEPS && column->steps_per_unit != 0)
        text_printf(sql, "%s / %.1f", text_string(&value), column->steps_per_unit);
    else
        text_append_string(sql, text_string(&value));
    if (text_error(&value) < 0)
        sql->error = text_error(&value);
}

static void write_metric(const struct schema *schema, const char *name, struct text *sql)
{
    const struct column *life = columns_find(&schema->life, name);
    const struct column *sample = columns_find(&schema->sample, name);

    if (strcmp(name, "age_seconds") == 0)
        /* NULL if it follows from the clock of the snapshot, see AGE_UNKNOWN. */
        text_append_string(sql, "CASE WHEN COALESCE(h.age_seconds, r.age_seconds, m.age_seconds)"
                                " IS NULL THEN s.age_clock - p.start_ticks"
                                " WHEN COALESCE(h.age_seconds, r.age_seconds, m.age_seconds) >= 0"
                                " THEN COALESCE(h.age_seconds, r.age_seconds, m.age_seconds)"
                                " END / 100.0");
    else if (life)
        column_express(life, "p", sql);
    else if (sample)
        write_sample_value(sample, sql);
    else
        text_printf(sql, "j.%s", name);
    text_printf(sql, " AS %s, ", name);
}

static void write_other_metrics(const struct schema *schema, const struct columns *columns,
                                struct text *sql)
{
    for (size_t i = 0; i < columns->count; i++)
        if (!names_have(metric_columns, columns->items[i].name))
            write_metric(schema, columns->items[i].name, sql);
}

/* Joins snapshots, the processes alive at each, and the latest row of each process, which is in one
 * of three tables. For the other two the key is NULL, so that SQLite does not search them. One
 * SELECT: SQLite would read a UNION ALL of three completely for any aggregate, and for an ORDER BY
 * on a column that is not selected.
 *
 * The plus signs exclude indexes: for a given process, SQLite finds its snapshots between
 * minute_tick and last_tick; for a given snapshot, its processes by last_tick. The likelihoods make
 * the planner prefer a range of time where there is one: it would assume that processes are
 * short-lived, and read a week of samples of one that is not. */
static const char metrics_source[] =
    " FROM snap s JOIN sessions e ON e.id = s.session"
    " JOIN proc p ON p.session = s.session AND p.last_tick >= +s.tick"
    " LEFT JOIN history h ON h.proc = p.id AND h.tick ="
    "  CASE WHEN s.is_minute = 0 AND s.tick <= e.folded_tick THEN"
    "  (SELECT max(x.tick) FROM history x WHERE x.proc = p.id AND x.tick <= s.tick) END"
    " LEFT JOIN recent r ON r.key ="
    "  CASE WHEN s.is_minute = 0 AND s.tick > e.folded_tick THEN"
    "  (SELECT x.key FROM snap q JOIN recent x ON x.key = (q.tick << 32) | p.id"
    "   WHERE q.session = s.session AND q.is_minute = 0 AND q.tick <= s.tick"
    "   AND q.tick > e.folded_tick ORDER BY q.tick DESC LIMIT 1) END"
    " LEFT JOIN minute m ON m.proc = p.id AND m.tick ="
    "  CASE WHEN s.is_minute = 1 THEN"
    "  (SELECT max(x.tick) FROM minute x WHERE x.proc = p.id AND x.tick <= s.tick) END"
    " LEFT JOIN jobs j ON j.id = p.run"
    " WHERE likelihood(s.tick >= p.minute_tick, 0.3) AND likelihood(s.tick <= p.last_tick, 0.3)"
    " AND (s.is_minute = 1 OR +s.tick >= p.first_tick)"
    " AND s.is_minute = (s.tick < e.full_from) AND +s.tick >= e.minute_from;\n";

static void write_metrics_view(const struct schema *schema, struct text *sql)
{
    double cpu_steps = columns_find(&schema->sample, "cpu_percent")->steps_per_unit;
    double rss_steps = columns_find(&schema->sample, "rss_mb")->steps_per_unit;

    text_append_string(sql, "CREATE VIEW process_metrics AS SELECT (p.id << 32) | s.tick AS id,"
                            " s.id AS snapshot_id, ");
    for (size_t i = 0; metric_columns[i]; i++)
        write_metric(schema, metric_columns[i], sql);
    write_other_metrics(schema, &schema->life, sql);
    write_other_metrics(schema, &schema->sample, sql);
    text_printf(sql,
                "j.run_id AS run_id,"
                " COALESCE(h.cpu_percent, r.cpu_percent, m.max_cpu_percent) / %.1f AS"
                " max_cpu_percent,"
                " COALESCE(h.rss_mb, r.rss_mb, m.max_rss_mb) / %.1f AS max_rss_mb,"
                " p.start_ticks AS start_ticks, s.timestamp AS timestamp, " SNAPSHOT_RESOLUTION
                " AS resolution_seconds",
                cpu_steps, rss_steps);
    text_append_string(sql, metrics_source);
}

static void write_events_view(const struct schema *schema, struct text *sql)
{
    static const char *const first[] = {
        "timestamp", "pid", "event_type", "exit_code", "signal_num", NULL,
    };

    text_append_string(sql, "CREATE VIEW process_events AS SELECT v.id AS id, ");
    for (size_t i = 0; first[i]; i++) {
        express_as(columns_find(&schema->event, first[i]), "v", sql);
        text_append_string(sql, ", ");
    }
    text_append_string(sql, "j.job_id AS job_id");
    for (size_t i = 0; i < schema->event.count; i++)
        if (!names_have(first, schema->event.items[i].name)) {
            text_append_string(sql, ", ");
            express_as(&schema->event.items[i], "v", sql);
        }
    text_append_string(sql, ", j.run_id AS run_id FROM event v LEFT JOIN jobs j ON j.id = v.run"
                            " WHERE v.event_type <> 'exec';\n");
}

void schema_write_views(const struct schema *schema, struct text *sql)
{
    write_snapshots_view(schema, sql);
    write_metrics_view(schema, sql);
    write_events_view(schema, sql);
}
