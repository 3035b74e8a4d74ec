/* How samples are stored (docs/SCHEMA.md has the details):
 *
 *   sessions   one writer from start to end; ticks count its snapshots
 *   snap       one row a tick: the machine
 *   proc       one row for each period from first_tick to last_tick in which the rarely changing
 *              fields of a process (command, parent, job, step …) stay the same
 *   recent     samples since the last keyframe, in the order of arrival: cheap to write
 *   history    samples before it, in the order of processes: quick to query
 *   minute     one row a process and minute, which replaces the samples that retention deletes
 *
 * A sample that equals the previous one is left out: a row is valid until the next row of its
 * process. */
#include "store/schema.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/gap.h"
#include "model/job.h"
#include "model/pattern.h"
#include "model/snapshot.h"

/* ---- the columns of each table ---- */

/* Stored in tables of their own, or in `sessions`. */
static const char *const not_in_snap[] = {
    "processes", "gpus", "jobs", "id", "host", "daemon_pid", "resolution_seconds", NULL,
};

static const char *const life_fields[] = {
    "pid", "ppid", "command", "uid", "sheet_num", "start_time", "fd_limit", "syscall_source", NULL,
};

/* Found through proc.run. */
static const char *const job_fields_of_processes[] = {"job_id", "run_id", NULL};
/* `folded_events` has the counts. */
static const char *const not_in_event[] = {"job_id", "run_id", "count", "first_timestamp", NULL};
static const char *const profile_in_job[] = {"profile", NULL};
static const char *const not_in_profile[] = {"job_id", "sheet_metrics", NULL};

/* A field of a process is stored in `proc` if life_fields names it, else in each sample. */
static void split_process(struct schema *schema)
{
    struct columns all = {0};

    columns_add(&all, &process_metric_record, 0, COLUMN_STEPS, COLUMN_SHARED,
                job_fields_of_processes);
    for (size_t i = 0; i < all.count; i++) {
        bool is_life = names_have(life_fields, all.items[i].name);
        struct columns *part = is_life ? &schema->life : &schema->sample;
        part->items[part->count++] = all.items[i];
    }
}

/* Times are stored plain, so that a condition on them in a view can use the index. */
static void set_plain(struct columns *columns, const char *name)
{
    for (size_t i = 0; i < columns->count; i++)
        if (strcmp(columns->items[i].name, name) == 0)
            columns->items[i].form = COLUMN_PLAIN;
}

void schema_init(struct schema *schema)
{
    memset(schema, 0, sizeof(*schema));
    columns_add(&schema->snapshot, &snapshot_record, 0, COLUMN_STEPS, COLUMN_SHARED, not_in_snap);
    set_plain(&schema->snapshot, "timestamp");
    split_process(schema);
    columns_add(&schema->gpu, &gpu_metric_record, 0, COLUMN_STEPS, COLUMN_SHARED, NULL);
    columns_add(&schema->usage, &job_usage_record, 0, COLUMN_STEPS, COLUMN_SHARED,
                job_fields_of_processes);
    columns_add(&schema->event, &process_event_record, 0, COLUMN_STEPS, COLUMN_SHARED,
                not_in_event);
    set_plain(&schema->event, "timestamp");
    columns_add(&schema->job, &job_record, 0, COLUMN_PLAIN, COLUMN_PLAIN, profile_in_job);
    columns_add(&schema->job, &job_profile_record, offsetof(struct job, profile), COLUMN_PLAIN,
                COLUMN_PLAIN, not_in_profile);
    columns_add(&schema->sheet, &sheet_record, 0, COLUMN_PLAIN, COLUMN_PLAIN, NULL);
    columns_add(&schema->anomaly, &anomaly_record, 0, COLUMN_PLAIN, COLUMN_PLAIN, NULL);
    columns_add(&schema->pattern, &pattern_record, 0, COLUMN_PLAIN, COLUMN_PLAIN, NULL);
    columns_add(&schema->gap, &gap_record, 0, COLUMN_PLAIN, COLUMN_PLAIN, NULL);
}

/* ---- writing SQL ---- */

/* A column that only reads another one. */
#define NAME_COLUMN(name, column) "\"" name "\" GENERATED ALWAYS AS (\"" column "\") VIRTUAL"

void column_name(const struct column *column, const char *alias, struct text *sql)
{
    if (column->is_absent)
        text_append_string(sql, "NULL");
    else
        text_printf(sql, "%s\"%s\"", alias, column->name);
}

/* A field that has two names is found under both. */
static void declare(const struct column *column, const char *alias, struct text *sql)
{
    (void)alias;
    column_declare(column, sql);
    if (column->field->alias)
        text_printf(sql, ", " NAME_COLUMN("%s", "%s"), column->field->name, column->name);
}

void columns_list(const struct columns *columns, struct text *sql,
                  void (*write)(const struct column *column, const char *alias, struct text *sql),
                  const char *alias)
{
    for (size_t i = 0; i < columns->count; i++) {
        if (i)
            text_append_string(sql, ", ");
        write(&columns->items[i], alias, sql);
    }
}

int schema_prepare_insert(struct database *database, const char *verb, const char *table,
                          const char *own, size_t own_count, const struct columns *columns,
                          sqlite3_stmt **ret)
{
    _cleanup_text_ struct text sql = {0};

    text_printf(&sql, "%s INTO %s (%s, ", verb, table, own);
    columns_list(columns, &sql, column_name, "");
    text_append_string(&sql, ") VALUES (");
    for (size_t i = 0; i < own_count + columns->count; i++)
        text_append_string(&sql, i ? ", ?" : "?");
    text_append_char(&sql, ')');
    return database_prepare_text(database, &sql, ret);
}

/* ---- tables ---- */

/* The sessions that wrote a run before the one in `jobs`, with its figures_tick at that time. */
#define TURNS_TABLE                                                                                \
    "CREATE TABLE turns (run INTEGER, session INTEGER, figures_tick INTEGER,"                      \
    " PRIMARY KEY (run, session)) WITHOUT ROWID;\n"
/* See folded-events.h. */
#define FOLDS_TABLE                                                                                \
    "CREATE TABLE folded_events (run INTEGER, minute INTEGER, session INTEGER, program TEXT,"      \
    " event_type TEXT, code INTEGER, count INTEGER, first REAL, last REAL, cpu_seconds REAL,"      \
    " cpu_count INTEGER, peak_rss_mb REAL,"                                                        \
    " PRIMARY KEY (run, minute, session, program, event_type, code)) WITHOUT ROWID;\n"             \
    "CREATE INDEX folded_events_time ON folded_events (minute);\n"
#define OPEN_ANOMALIES_INDEX                                                                       \
    "CREATE INDEX anomalies_open ON anomalies (session) WHERE cleared_at IS NULL;\n"

static const char plain_tables[] =
    "CREATE TABLE upkeep (name TEXT PRIMARY KEY, at REAL) WITHOUT ROWID;\n"
    "CREATE TABLE text (id INTEGER PRIMARY KEY, hash INTEGER NOT NULL, value TEXT NOT NULL);\n"
    "CREATE INDEX text_hash ON text (hash);\n"
    /* AUTOINCREMENT: the lock of a session is identified by its id, which must not be used again.
     */
    "CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, host TEXT, boot_id TEXT,"
    " pid INTEGER, collector TEXT, interval_seconds REAL, version TEXT, started_at REAL,"
    " ended_at REAL, folded_tick INTEGER NOT NULL DEFAULT 0, rolled_tick INTEGER NOT NULL DEFAULT "
    "0,"
    " full_from INTEGER NOT NULL DEFAULT 0, trimmed_to INTEGER NOT NULL DEFAULT 0,"
    " minute_from INTEGER NOT NULL DEFAULT 0);\n"
    "CREATE INDEX sessions_open ON sessions (id) WHERE ended_at IS NULL;\n" TURNS_TABLE FOLDS_TABLE;

#define COLUMNS(member) offsetof(struct schema, member)

static const struct schema_table tables[] = {
    {
        .name = "snap",
        .purpose = "one row a snapshot: the machine; and one row of means a minute, which replaces"
                   " the snapshots tick to to_tick when they are deleted",
        .own = "id INTEGER PRIMARY KEY, session INTEGER, is_minute INTEGER NOT NULL DEFAULT 0,"
               " tick INTEGER, to_tick INTEGER, child_count INTEGER, age_clock INTEGER",
        .columns = COLUMNS(snapshot),
    },
    {
        .name = "proc",
        .purpose = "one row for each period of a process in which these columns stay the same",
        .own = "id INTEGER PRIMARY KEY, session INTEGER, minute_tick INTEGER, first_tick INTEGER,"
               " last_tick INTEGER, run INTEGER, start_ticks INTEGER",
        .columns = COLUMNS(life),
    },
    {
        .name = "recent",
        .purpose = "samples since the last keyframe; the key is tick << 32 | proc, so that they are"
                   " appended; `same` marks rows that a keyframe only repeats",
        .own = "key INTEGER PRIMARY KEY, session INTEGER, same INTEGER",
        .columns = COLUMNS(sample),
    },
    {
        .name = "history",
        .purpose = "samples before it; a row is valid until the next row of its process",
        .own = "proc INTEGER, tick INTEGER",
        .columns = COLUMNS(sample),
        .key = "proc, tick",
    },
    {
        .name = "minute",
        .purpose = "one row a process and minute: means of gauges, last values of counters, maxima",
        .own = "proc INTEGER, tick INTEGER, max_cpu_percent INTEGER, max_rss_mb INTEGER",
        .columns = COLUMNS(sample),
        .key = "proc, tick",
    },
    {
        .name = "gpu",
        .purpose = "one row a GPU and snapshot, and a GPU and minute",
        .own = "session INTEGER, is_minute INTEGER NOT NULL DEFAULT 0, tick INTEGER",
        .columns = COLUMNS(gpu),
        .key = "session, is_minute, tick, \"index\"",
    },
    {
        .name = "usage",
        .purpose = "one row a running job and snapshot, and a job and minute: what all its"
                   " processes use",
        .own = "session INTEGER, is_minute INTEGER NOT NULL DEFAULT 0, tick INTEGER, run INTEGER",
        .columns = COLUMNS(usage),
        .key = "session, is_minute, tick, run",
    },
    {
        .name = "event",
        .purpose = "events of processes, including `exec`, and of steps",
        .own = "id INTEGER PRIMARY KEY, run INTEGER",
        .columns = COLUMNS(event),
    },
    {
        .name = "jobs",
        .purpose = "one row a run, with what it used, updated by the snapshots of its session up"
                   " to figures_tick",
        /* AUTOINCREMENT: events and samples may outlive their run, whose id must not be used again.
         */
        .own = "id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER, figures_tick INTEGER",
        .columns = COLUMNS(job),
    },
    {
        .name = "sheets",
        .purpose = "one row a step of a run",
        .columns = COLUMNS(sheet),
        .key = "run_id, sheet_num",
    },
    {
        .name = "anomalies",
        .purpose = "episodes, from opening to clearing; uid: of the user, NULL: of the machine",
        .own = "id INTEGER PRIMARY KEY, session INTEGER, uid INTEGER",
        .columns = COLUMNS(anomaly),
    },
    {
        .name = "patterns",
        .purpose = "patterns of anomalies and correlations",
        .columns = COLUMNS(pattern),
        .key = "pattern_type, pattern_name",
    },
    {
        .name = "gaps",
        .purpose = "periods without data, and why",
        .own = "id INTEGER PRIMARY KEY, session INTEGER",
        .columns = COLUMNS(gap),
    },
};

/* No index on samples: they are most of the data. */
static const char indexes[] =
    "CREATE UNIQUE INDEX snap_tick ON snap (session, tick, is_minute);\n"
    "CREATE INDEX snap_time ON snap (timestamp);\n"
    "CREATE INDEX proc_pid ON proc (pid);\n"
    "CREATE INDEX proc_run ON proc (run) WHERE run IS NOT NULL;\n"
    "CREATE INDEX proc_alive ON proc (session, last_tick);\n"
    "CREATE INDEX event_time ON event (timestamp);\n"
    "CREATE INDEX event_run ON event (run, timestamp) WHERE run IS NOT NULL;\n"
    "CREATE INDEX event_notable ON event (run, timestamp) WHERE " EVENT_IS_NOTABLE(
        "") ";\n"
            "CREATE UNIQUE INDEX jobs_run_id ON jobs (run_id);\n"
            "CREATE INDEX jobs_job_id ON jobs (job_id);\n"
            "CREATE INDEX jobs_started_at ON jobs (started_at);\n"
            "CREATE INDEX jobs_running ON jobs (session) WHERE outcome = 'running';\n"
            "CREATE INDEX anomalies_time ON anomalies (timestamp);\n"
            "CREATE INDEX anomalies_run ON anomalies (run_id) WHERE run_id IS NOT NULL;\n"
            "CREATE INDEX gaps_time ON gaps (timestamp);\n" OPEN_ANOMALIES_INDEX;

const struct schema_table *schema_tables(size_t *ret_count)
{
    *ret_count = ARRAY_SIZE(tables);
    return tables;
}

const struct columns *schema_columns(const struct schema *schema, const struct schema_table *table)
{
    return (const struct columns *)((const char *)schema + table->columns);
}

void schema_write_tables(const struct schema *schema, struct text *sql)
{
    text_append_string(sql, plain_tables);
    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        const struct schema_table *table = &tables[i];
        text_printf(sql, "CREATE TABLE %s (%s%s", table->name, table->own ? table->own : "",
                    table->own ? ", " : "");
        columns_list(schema_columns(schema, table), sql, declare, "");
        if (table->key)
            text_printf(sql, ", PRIMARY KEY (%s)) WITHOUT ROWID;\n", table->key);
        else
            text_append_string(sql, ");\n");
    }
    text_append_string(sql, indexes);
}

void schema_write_text_uses(const struct schema *schema, struct text *sql)
{
    const char *separator = "";

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        const struct columns *columns = schema_columns(schema, &tables[i]);
        for (size_t k = 0; k < columns->count; k++)
            if (columns->items[k].form == COLUMN_SHARED) {
                const char *name = columns->items[k].name;
                text_printf(sql, "%sSELECT \"%s\" FROM %s WHERE \"%s\" IS NOT NULL", separator,
                            name, tables[i].name, name);
                separator = " UNION ALL ";
            }
    }
}

/* ---- versions ---- */

static const char drop_views[] = "DROP VIEW IF EXISTS snapshots; DROP VIEW IF EXISTS"
                                 " process_metrics; DROP VIEW IF EXISTS process_events;";

/* The migration from each version to the next, apart from columns of new fields. clang-format would
 * indent the last one by its macros. */
/* clang-format off */
static const char *const migrations[SCHEMA_VERSION] = {
    "", /* 0, from before the first release */
    /* The sessions of open anomalies are unknown: all of them are cleared. */
    "ALTER TABLE anomalies ADD COLUMN session INTEGER;"
    "ALTER TABLE anomalies ADD COLUMN uid INTEGER;"
    "UPDATE anomalies SET cleared_at = max(timestamp, COALESCE((SELECT j.ended_at FROM jobs j"
    " WHERE j.run_id = anomalies.run_id), (SELECT max(s.timestamp) FROM snap s), timestamp))"
    " WHERE cleared_at IS NULL;" OPEN_ANOMALIES_INDEX TURNS_TABLE
    "ALTER TABLE event ADD COLUMN is_step INTEGER;"
    "ALTER TABLE jobs ADD COLUMN figures_tick INTEGER;"
    /* Only runs that can be taken over need figures_tick. */
    "UPDATE jobs SET figures_tick = (SELECT max(s.tick) FROM snap s WHERE s.session = jobs.session"
    " AND s.is_minute = 0) WHERE outcome = 'running' OR cause = 'lost';",
    FOLDS_TABLE,
    "", /* columns of jobs */
    "ALTER TABLE jobs ADD COLUMN " NAME_COLUMN("cpu_seconds", "total_cpu_seconds") ";"
    "ALTER TABLE jobs ADD COLUMN " NAME_COLUMN("processes", "process_spawn_count") ";"
    "ALTER TABLE jobs ADD COLUMN " NAME_COLUMN("left_running_count", "left_running") ";",
    "", /* columns of new fields */
};
/* clang-format on */

static int has_column(struct database *database, const char *table, const char *name)
{
    int code = sqlite3_table_column_metadata(database->handle, "main", table, name, NULL, NULL,
                                             NULL, NULL, NULL);

    if (code == SQLITE_OK)
        return 1;
    return code == SQLITE_ERROR ? 0 : database_fail(database, code, "cannot read the tables of");
}

int schema_find_absent(struct schema *schema, struct database *database)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        struct columns *columns = (struct columns *)((char *)schema + tables[i].columns);
        for (size_t k = 0; k < columns->count && r >= 0; k++) {
            r = has_column(database, tables[i].name, columns->items[k].name);
            columns->items[k].is_absent = r == 0;
        }
    }
    return MIN(r, 0);
}

/* Adds the columns of fields that are new in the field tables. */
static int add_new_columns(const struct schema *schema, struct database *database)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
        const struct columns *columns = schema_columns(schema, &tables[i]);
        for (size_t k = 0; k < columns->count && r == 0; k++) {
            _cleanup_text_ struct text sql = {0};
            r = has_column(database, tables[i].name, columns->items[k].name);
            if (r != 0) {
                r = MIN(r, 0);
                continue;
            }
            text_printf(&sql, "ALTER TABLE %s ADD COLUMN ", tables[i].name);
            column_declare(&columns->items[k], &sql);
            r = text_error(&sql);
            if (r == 0)
                r = database_exec(database, text_string(&sql));
        }
    }
    return r;
}

/* Statistics for the query planner, as of a week of a machine with 200 processes. They make it
 * prefer a range of time to a pid, which many processes have had. */
static const char planner_hints[] =
    "ANALYZE upkeep; DELETE FROM sqlite_stat1; INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES"
    " ('snap', 'snap_tick', '130000 130000 2 1'), ('snap', 'snap_time', '130000 1'),"
    " ('proc', 'proc_pid', '70000 50'), ('proc', 'proc_run', '70000 20'),"
    " ('proc', 'proc_alive', '70000 70000 2'), ('history', 'history', '4000000 50 1'),"
    " ('recent', NULL, '4000'), ('minute', 'minute', '500000 10 1'),"
    " ('jobs', 'jobs_job_id', '2000 2'), ('jobs', 'jobs_run_id', '2000 1'),"
    " ('text', 'text_hash', '5000 1'), ('sessions', NULL, '10'),"
    " ('event', 'event_time', '100000 1'), ('event', 'event_run', '100000 50 1');";

static int create(const struct schema *schema, struct database *database, bool with_tables)
{
    _cleanup_text_ struct text sql = {0};

    if (with_tables)
        schema_write_tables(schema, &sql);
    schema_write_views(schema, &sql);
    text_append_string(&sql, planner_hints);
    text_printf(&sql, "PRAGMA application_id = %d; PRAGMA user_version = %d", SCHEMA_APPLICATION_ID,
                SCHEMA_VERSION);
    if (text_error(&sql) < 0)
        return database_fail_errno(database, -ENOMEM);
    return database_exec(database, text_string(&sql));
}

static int migrate(const struct schema *schema, struct database *database, int64_t version)
{
    int r = database_exec(database, drop_views);

    for (; version < SCHEMA_VERSION && r == 0; version++)
        r = database_exec(database, migrations[version]);
    if (r == 0)
        r = add_new_columns(schema, database);
    return r < 0 ? r : create(schema, database, false);
}

static int reject_foreign(struct database *database)
{
    int64_t application = 0;

    int r = database_query_int(database, "PRAGMA application_id", &application);
    if (r == 0 && application != SCHEMA_APPLICATION_ID)
        r = database_fail_with(database, -EBADMSG,
                               "'%s' is a database of another program; name another file with"
                               " profiler.storage_path",
                               database->path);
    return r;
}

static int migrate_in_transaction(const struct schema *schema, struct database *database)
{
    int64_t version = 0, tables_there = 0;

    /* Another writer may have done it. */
    int r = database_query_int(database, "PRAGMA user_version", &version);
    if (r == 0)
        r = database_query_int(database, "SELECT count(*) FROM sqlite_master", &tables_there);
    if (r == 0 && !tables_there)
        return create(schema, database, true);
    if (r == 0)
        r = reject_foreign(database);
    if (r < 0 || version == SCHEMA_VERSION)
        return r;
    if (version > SCHEMA_VERSION)
        return database_fail_with(database, -EPROTONOSUPPORT,
                                  "'%s' was made by a newer version of sonde; use that version, or"
                                  " another file",
                                  database->path);
    return migrate(schema, database, version);
}

/* Incremental vacuum must be set before the first table, and in the same transaction: a crash
 * between the two would leave a database without our application id. Within a transaction, the
 * pragma takes the write lock at once. */
static int begin_creating(struct database *database)
{
    int r = database_exec(database, "BEGIN");
    if (r == 0)
        r = database_exec(database, "PRAGMA auto_vacuum = INCREMENTAL");
    return r == 0 ? 0 : database_end(database, r);
}

int schema_migrate(const struct schema *schema, struct database *database)
{
    int64_t version = 0;

    int r = database_query_int(database, "PRAGMA user_version", &version);
    if (r == 0 && version == 0)
        r = begin_creating(database);
    else if (r == 0 && version != SCHEMA_VERSION)
        r = database_begin(database);
    if (r == 0 && version != SCHEMA_VERSION)
        r = database_end(database, migrate_in_transaction(schema, database));
    if (r == 0)
        r = reject_foreign(database);
    if (r < 0)
        return r;
    /* The tables come before the write-ahead log, so that the file itself has our application id.
     */
    return database_use_wal(database);
}
