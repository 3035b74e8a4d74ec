/* The reading half of store.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "store/ballast.h"
#include "store/database-path.h"
#include "store/event-query.h"
#include "store/machine-query.h"
#include "store/orphans.h"
#include "store/query-builder.h"
#include "store/rows.h"
#include "store/run-digests.h"
#include "store/sample-reader.h"
#include "store/session.h"
#include "store/store.h"

struct store_reader {
    struct database database;
    struct schema schema;
    int lock_fd;
};

/* ---- opening ---- */

static int check_version(struct store_reader *reader)
{
    int64_t version = 0, tables = 0;

    int r = database_query_int(&reader->database, "PRAGMA user_version", &version);
    if (r == 0) /* also finds a damaged file */
        r = database_query_int(&reader->database, "SELECT count(*) FROM sqlite_master", &tables);
    if (r < 0 || version == SCHEMA_VERSION)
        return r;
    if (!tables) /* a writer is creating it */
        return database_fail_with(&reader->database, -ENOENT, "'%s' is empty",
                                  reader->database.path);
    if (version > SCHEMA_VERSION)
        return database_fail_with(&reader->database, -EPROTONOSUPPORT,
                                  "'%s' was made by a newer version of sonde; use that version, or"
                                  " another file",
                                  reader->database.path);
    if (version < SCHEMA_VERSION_FIRST)
        return database_fail_with(&reader->database, -EPROTONOSUPPORT,
                                  "'%s' was made by an older version of sonde; the next `sonde run`"
                                  " migrates it",
                                  reader->database.path);
    /* Only writers migrate: the reader may not write the file, and an older sonde may use it. */
    return schema_find_absent(&reader->schema, &reader->database);
}

static int open_reader(struct store_reader *reader, const char *wanted_path)
{
    const struct database_path_options wanted = {.path = wanted_path};
    _cleanup_database_path_ struct database_path found = {0};
    struct database_path_error error;

    int r = database_path_prepare(&wanted, &found, &error);
    if (r < 0)
        return database_fail_with(&reader->database, r, "%s", error.text);
    const char *path = found.path;
    reader->lock_fd = session_open_locks(path, false);
    if (ballast_check_room(path) < 0)
        return database_fail_with(
            &reader->database, -ENOSPC,
            "cannot read '%s': reading needs some space, and the disk is full", path);
    r = database_open(path, DATABASE_READ, &reader->database);
    if (r == 0)
        r = check_version(reader);
    return r;
}

int store_reader_open(const char *path, struct store_reader **ret, struct store_error *error)
{
    struct store_reader *reader = calloc(1, sizeof(*reader));

    if (!reader) {
        snprintf(error->text, sizeof(error->text), "out of memory");
        return -ENOMEM;
    }
    schema_init(&reader->schema);
    reader->lock_fd = -1;
    int r = open_reader(reader, path);
    if (r < 0) {
        *error = reader->database.error;
        store_reader_close(reader);
        return r;
    }
    *ret = reader;
    return 0;
}

void store_reader_interrupt(struct store_reader *reader)
{
    sqlite3_interrupt(reader->database.handle);
}

void store_reader_close(struct store_reader *reader)
{
    if (!reader)
        return;
    database_close(&reader->database);
    close_fd(reader->lock_fd);
    free(reader);
}

void store_reader_closep(struct store_reader **reader)
{
    store_reader_close(*reader);
}

const char *store_reader_error(const struct store_reader *reader)
{
    return reader->database.error.text;
}

static void end_transaction(struct store_reader *reader)
{
    if (!sqlite3_get_autocommit(reader->database.handle))
        sqlite3_exec(reader->database.handle, "COMMIT", NULL, NULL, NULL);
}

static int begin_transaction(struct store_reader *reader)
{
    end_transaction(reader); /* the last one may not have ended, because memory ran out */
    return database_exec(&reader->database, "BEGIN");
}

/* ---- jobs ---- */

/* A session that seems dead is checked again in the current lock file, which may be a new one. */
static bool is_alive(struct store_reader *reader, int64_t session)
{
    if (session_is_alive(reader->lock_fd, session))
        return true;
    session_reopen_locks(reader->database.path, &reader->lock_fd);
    return session_is_alive(reader->lock_fd, session);
}

/* A running run whose writer has died is lost. */
static void mark_lost(struct store_reader *reader, int64_t session, struct job *job)
{
    if (job->outcome != OUTCOME_RUNNING || is_alive(reader, session))
        return;
    job->outcome = OUTCOME_UNKNOWN;
    job->cause = CAUSE_LOST;
}

static int read_job(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    struct store_reader *reader = context;
    struct job *job = item;

    record_init(&job_record, job);
    int r = row_read_columns(&reader->schema.job, row, 1, arena, job);
    job->profile.job_id = job->job_id;
    mark_lost(reader, row_read_int(row, 0), job);
    return r;
}

static void select_jobs(const struct store_reader *reader, struct query_builder *query)
{
    text_append_string(&query->sql, "SELECT session, ");
    columns_list(&reader->schema.job, &query->sql, column_name, "");
    text_append_string(&query->sql, " FROM jobs WHERE 1");
}

/* Whether mark_lost() may change whether a run has this outcome. */
static bool may_be_lost(int outcome)
{
    return outcome == OUTCOME_RUNNING || outcome == OUTCOME_UNKNOWN;
}

static void filter_outcome(struct job_list *jobs, int outcome, size_t limit)
{
    size_t kept = 0;

    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->items[i].outcome == outcome && (!limit || kept < limit))
            jobs->items[kept++] = jobs->items[i];
    jobs->count = kept;
}

int store_read_jobs(struct store_reader *reader, const struct job_filter *filter,
                    struct arena *arena, struct job_list *ret)
{
    struct query_builder query = {0};
    struct any_list list;

    select_jobs(reader, &query);
    query_add_time(&query, &reader->schema.job, "ended_at",
                   " AND (ended_at >= ? OR ended_at IS NULL)", filter->since);
    query_add_time(&query, &reader->schema.job, "started_at", " AND started_at <= ?",
                   filter->until);
    query_add_text(&query, " AND job_id = ?", filter->job_id);
    query_add_text(&query, " AND job_type = ?", filter->job_type);
    query_add_text(&query, " AND parent_run_id = ?", filter->parent_run_id);
    query_add_int(&query, " AND uid = ?", filter->uid);
    if (may_be_lost(filter->outcome))
        text_append_string(&query.sql, " AND outcome IN ('running', 'unknown')");
    else
        query_add_text(&query, " AND outcome = ?", outcome_name(filter->outcome));
    text_append_string(&query.sql, " ORDER BY started_at DESC, id DESC");
    if (!may_be_lost(filter->outcome))
        query_add_limit(&query, filter->limit);
    int r =
        query_run(&query, &reader->database, sizeof(struct job), read_job, reader, arena, &list);
    if (r < 0)
        return r;
    *ret = (struct job_list){.items = list.items, .count = list.count};
    if (may_be_lost(filter->outcome))
        filter_outcome(ret, filter->outcome, filter->limit);
    return 0;
}

static int read_sheet_metric(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    (void)context, (void)arena;
    *(struct sheet_metric *)item = (struct sheet_metric){.sheet_num = row_read_int(row, 0),
                                                         .peak_rss_mb = row_read_real(row, 1),
                                                         .max_cpu_pct = row_read_real(row, 2)};
    return 0;
}

static int read_sheet_metrics(struct store_reader *reader, struct arena *arena, struct job *job)
{
    struct query_builder query = {0};
    struct any_list list;

    text_append_string(&query.sql, "SELECT sheet_num, peak_rss_mb, max_cpu_pct FROM sheets");
    query_add_text(&query, " WHERE run_id = ? ORDER BY sheet_num", job->run_id);
    int r = query_run(&query, &reader->database, sizeof(struct sheet_metric), read_sheet_metric,
                      reader, arena, &list);
    if (r == 0)
        job->profile.sheet_metrics =
            (struct sheet_metric_list){.items = list.items, .count = list.count};
    return r;
}

/* The run `offset` runs before the latest of a job, or, with `by_run_id`, the run with this id. */
static int find_run(struct store_reader *reader, const char *name, bool by_run_id, int64_t offset,
                    struct arena *arena, struct job *ret)
{
    struct query_builder query = {0};
    struct any_list list;

    select_jobs(reader, &query);
    query_add_text(&query, by_run_id ? " AND run_id = ?" : " AND job_id = ?", name);
    query_add_number(&query, " ORDER BY started_at DESC, id DESC LIMIT 1 OFFSET ?", (double)offset);
    int r =
        query_run(&query, &reader->database, sizeof(struct job), read_job, reader, arena, &list);
    if (r < 0 || !list.count)
        return r < 0 ? r : -ENOENT;
    *ret = *(struct job *)list.items;
    return read_sheet_metrics(reader, arena, ret);
}

int store_find_job(struct store_reader *reader, const char *name, struct arena *arena,
                   struct job *ret)
{
    const char *tilde = strrchr(name, '~');
    char job_id[JOB_ID_NUMBERED_MAX_BYTES];
    int64_t offset = 0;

    if (tilde && (number_parse_int(tilde + 1, &offset) < 0 || offset < 0))
        return -ENOENT;
    size_t length = tilde ? (size_t)(tilde - name) : strlen(name);
    if (length >= sizeof(job_id))
        return -ENOENT;
    memcpy(job_id, name, length);
    job_id[length] = '\0';
    int r = begin_transaction(reader);
    if (r == 0)
        r = find_run(reader, job_id, false, offset, arena, ret);
    if (r == -ENOENT && !tilde)
        r = find_run(reader, job_id, true, 0, arena, ret);
    end_transaction(reader);
    return r;
}

static int read_sheet(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct store_reader *reader = context;

    record_init(&sheet_record, item);
    return row_read_columns(&reader->schema.sheet, row, 0, arena, item);
}

int store_read_sheets(struct store_reader *reader, const char *run_id, struct arena *arena,
                      struct sheet_list *ret)
{
    struct query_builder query = {0};
    struct any_list list;

    text_append_string(&query.sql, "SELECT ");
    columns_list(&reader->schema.sheet, &query.sql, column_name, "");
    query_add_text(&query, " FROM sheets WHERE run_id = ? ORDER BY sheet_num", run_id);
    int r = query_run(&query, &reader->database, sizeof(struct sheet), read_sheet, reader, arena,
                      &list);
    if (r == 0)
        *ret = (struct sheet_list){.items = list.items, .count = list.count};
    return r;
}

int store_visit_digests(struct store_reader *reader, const struct digest_filter *filter,
                        digest_fn visit, void *context)
{
    int r = begin_transaction(reader);

    if (r == 0)
        r = run_digests_visit(&reader->database, &reader->schema, filter, visit, context);
    end_transaction(reader);
    return r;
}

int store_read_orphaned(struct store_reader *reader, const char *host, const char *boot_id,
                        struct arena *arena, struct orphaned_run_list *ret)
{
    int r = begin_transaction(reader);
    if (r < 0)
        return r;
    session_reopen_locks(reader->database.path, &reader->lock_fd);
    r = orphans_query(&reader->database, &reader->schema, reader->lock_fd, host, boot_id, arena,
                      ret);
    end_transaction(reader);
    return r;
}

/* ---- events, anomalies, gaps, patterns ---- */

int store_read_events(struct store_reader *reader, const struct event_filter *filter,
                      struct arena *arena, struct process_event_list *ret)
{
    int r = begin_transaction(reader);

    if (r == 0)
        r = event_query(&reader->database, &reader->schema, filter, arena, ret);
    end_transaction(reader);
    return r;
}

static int read_anomaly(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct store_reader *reader = context;
    struct anomaly *anomaly = item;

    record_init(&anomaly_record, anomaly);
    anomaly->uid = row_read_int(row, 0);
    return row_read_columns(&reader->schema.anomaly, row, 1, arena, anomaly);
}

int store_read_anomalies(struct store_reader *reader, const char *run_id, double since,
                         double until, struct arena *arena, struct anomaly_list *ret)
{
    struct query_builder query = {0};
    struct any_list list;

    text_append_string(&query.sql, "SELECT uid, ");
    columns_list(&reader->schema.anomaly, &query.sql, column_name, "");
    text_append_string(&query.sql, " FROM anomalies WHERE 1");
    query_add_text(&query, " AND run_id = ?", run_id);
    query_add_time(&query, &reader->schema.anomaly, "cleared_at",
                   " AND (cleared_at >= ? OR cleared_at IS NULL)", since);
    query_add_time(&query, &reader->schema.anomaly, "timestamp", " AND timestamp <= ?", until);
    text_append_string(&query.sql, " ORDER BY timestamp, id");
    int r = query_run(&query, &reader->database, sizeof(struct anomaly), read_anomaly, reader,
                      arena, &list);
    if (r == 0)
        *ret = (struct anomaly_list){.items = list.items, .count = list.count};
    return r;
}

static int read_gap(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct store_reader *reader = context;

    record_init(&gap_record, item);
    return row_read_columns(&reader->schema.gap, row, 0, arena, item);
}

int store_read_gaps(struct store_reader *reader, const char *run_id, double since, double until,
                    struct arena *arena, struct gap_list *ret)
{
    struct query_builder query = {0};
    struct any_list list;

    text_append_string(&query.sql, "SELECT ");
    columns_list(&reader->schema.gap, &query.sql, column_name, "g.");
    text_append_string(&query.sql, " FROM gaps g WHERE 1");
    query_add_text(
        &query,
        " AND EXISTS (SELECT 1 FROM jobs j WHERE j.run_id = ? AND (j.session = g.session OR"
        " EXISTS (SELECT 1 FROM turns t WHERE t.run = j.id AND t.session = g.session))"
        " AND g.timestamp >= min(j.started_at, COALESCE(j.ended_at - j.wall_seconds,"
        " j.started_at)) AND g.timestamp - max(COALESCE(g.seconds, 0), 0) <="
        " COALESCE(j.ended_at, g.timestamp))",
        run_id);
    query_add_time(&query, &reader->schema.gap, "timestamp", " AND g.timestamp >= ?", since);
    query_add_time(&query, &reader->schema.gap, "timestamp", " AND g.timestamp <= ?", until);
    text_append_string(&query.sql, " ORDER BY g.timestamp, g.id");
    int r =
        query_run(&query, &reader->database, sizeof(struct gap), read_gap, reader, arena, &list);
    if (r == 0)
        *ret = (struct gap_list){.items = list.items, .count = list.count};
    return r;
}

static int read_pattern(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct store_reader *reader = context;

    record_init(&pattern_record, item);
    return row_read_columns(&reader->schema.pattern, row, 0, arena, item);
}

int store_read_patterns(struct store_reader *reader, struct arena *arena, struct pattern_list *ret)
{
    struct query_builder query = {0};
    struct any_list list;

    text_append_string(&query.sql, "SELECT ");
    columns_list(&reader->schema.pattern, &query.sql, column_name, "");
    text_append_string(&query.sql, " FROM patterns ORDER BY pattern_type, pattern_name");
    int r = query_run(&query, &reader->database, sizeof(struct pattern), read_pattern, reader,
                      arena, &list);
    if (r == 0)
        *ret = (struct pattern_list){.items = list.items, .count = list.count};
    return r;
}

/* ---- samples ---- */

static int begin_reading(struct store_reader *reader, struct sample_reader *samples)
{
    int r = begin_transaction(reader);
    return r < 0 ? r : sample_reader_init(samples, &reader->database, &reader->schema);
}

static int end_reading(struct store_reader *reader, struct sample_reader *samples, int result)
{
    sample_reader_done(samples);
    end_transaction(reader);
    return result;
}

int store_read_snapshots(struct store_reader *reader, double since, size_t limit,
                         struct snapshot_list *ret)
{
    struct sample_reader samples = {0};

    int r = begin_reading(reader, &samples);
    if (r == 0)
        r = sample_reader_snapshots(&samples, since, limit ? limit : SNAPSHOT_LIMIT_DEFAULT, ret);
    return end_reading(reader, &samples, r);
}

int store_read_marks(struct store_reader *reader, double since, size_t limit, struct arena *arena,
                     struct snapshot_mark_list *ret)
{
    struct sample_reader samples = {0};

    int r = begin_reading(reader, &samples);
    if (r == 0)
        r = sample_reader_marks(&samples, since, limit, arena, ret);
    return end_reading(reader, &samples, r);
}

int store_read_snapshot(struct store_reader *reader, int64_t id, struct snapshot **ret)
{
    struct sample_reader samples = {0};

    int r = begin_reading(reader, &samples);
    if (r == 0)
        r = sample_reader_snapshot(&samples, id, ret);
    return end_reading(reader, &samples, r);
}

int store_read_process(struct store_reader *reader, int64_t pid, double start_time, double since,
                       size_t limit, struct arena *arena, struct process_point_list *ret)
{
    struct sample_reader samples = {0};

    int r = begin_reading(reader, &samples);
    if (r == 0)
        r = sample_reader_process(&samples, pid, start_time, since,
                                  limit ? limit : SNAPSHOT_LIMIT_DEFAULT, arena, ret);
    return end_reading(reader, &samples, r);
}

static int read_memory_point(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct store_reader *reader = context;
    struct job_usage usage;

    (void)arena;
    column_set_code(columns_find(&reader->schema.usage, "rss_mb"), row_read_int(row, 1), &usage);
    column_set_code(columns_find(&reader->schema.usage, "processes"), row_read_int(row, 2), &usage);
    *(struct memory_point *)item = (struct memory_point){
        .timestamp = row_read_real(row, 0), .rss_mb = usage.rss_mb, .processes = usage.processes};
    return 0;
}

int store_read_memory(struct store_reader *reader, const char *run_id, double since, double until,
                      struct arena *arena, struct memory_point_list *ret)
{
    struct query_builder query = {0};
    struct any_list list;

    text_append_string(&query.sql,
                       "SELECT s.timestamp, u.rss_mb, u.processes FROM snap s"
                       " JOIN sessions e ON e.id = s.session JOIN usage u ON u.session = s.session"
                       " AND u.is_minute = s.is_minute AND u.tick = s.tick WHERE " SNAPSHOT_COUNTS);
    query_add_text(&query, " AND u.run = (SELECT id FROM jobs WHERE run_id = ?)", run_id);
    query_add_time(&query, &reader->schema.snapshot, "timestamp", " AND s.timestamp >= ?", since);
    query_add_time(&query, &reader->schema.snapshot, "timestamp", " AND s.timestamp <= ?", until);
    text_append_string(&query.sql, " ORDER BY s.timestamp, s.id");
    int r = query_run(&query, &reader->database, sizeof(struct memory_point), read_memory_point,
                      reader, arena, &list);
    if (r == 0)
        *ret = (struct memory_point_list){.items = list.items, .count = list.count};
    return r;
}

int store_read_machine(struct store_reader *reader, double since, double until, size_t top,
                       struct arena *arena, struct machine_use *ret)
{
    const struct column *time = columns_find(&reader->schema.snapshot, "timestamp");

    int r = begin_transaction(reader);
    /* Both bounds are inclusive at the resolution of stored times. */
    if (r == 0)
        r = machine_query(&reader->database, &reader->schema,
                          fmin(since, column_round(time, since)),
                          fmax(until, column_round(time, until)), top, arena, ret);
    end_transaction(reader);
    return r;
}
