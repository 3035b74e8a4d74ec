/* Questions to the embedded store. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "store/ballast.h"
#include "store/database-path.h"
#include "store/folded-events.h"
#include "store/machine-query.h"
#include "store/orphans.h"
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

    int r = database_ask_int(&reader->database, "PRAGMA user_version", &version);
    if (r == 0) /* what is damaged from the start is said at once */
        r = database_ask_int(&reader->database, "SELECT count(*) FROM sqlite_master", &tables);
    if (r < 0 || version == SCHEMA_VERSION)
        return r;
    if (!tables) /* it is just being made */
        return database_fail_with(&reader->database, -ENOENT, "'%s' is empty",
                                  reader->database.path);
    if (version > SCHEMA_VERSION)
        return database_fail_with(&reader->database, -EPROTONOSUPPORT,
                                  "'%s' was made by a newer sonde; use that one, or another file",
                                  reader->database.path);
    return database_fail_with(&reader->database, -EPROTONOSUPPORT,
                              "'%s' was made by an older sonde; the next `sonde run` brings it up"
                              " to date",
                              reader->database.path);
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
            "cannot read '%s': that needs a little room, and the disk is full", path);
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

/* What belongs together is read together. */
static int begin_transaction(struct store_reader *reader)
{
    end_transaction(reader); /* the last one may have had no memory left to end */
    return database_exec(&reader->database, "BEGIN");
}

/* ---- questions put together ---- */

/* A statement that grows, with the values of its parameters in their order. */
struct question {
    struct text sql;
    struct {
        bool is_text;
        double number;
        const char *text;
    } values[10];
    size_t count;
};

static void ask_number(struct question *question, const char *condition, double value)
{
    if (!real_is_known(value))
        return;
    text_append_string(&question->sql, condition);
    question->values[question->count++].number = value;
}

/* A time as its column has it, so that what was written then is found. */
static void ask_time(struct question *question, const struct columns *columns, const char *name,
                     const char *condition, double value)
{
    ask_number(question, condition, column_round(columns_find(columns, name), value));
}

static void ask_text(struct question *question, const char *condition, const char *value)
{
    if (!value)
        return;
    text_append_string(&question->sql, condition);
    question->values[question->count].is_text = true;
    question->values[question->count++].text = value;
}

/* Prepares it, collects the rows, and is done with it. */
static int answer(struct store_reader *reader, struct question *question, size_t item_size,
                  row_reader read, struct arena *arena, struct any_list *ret)
{
    sqlite3_stmt *rows = NULL;

    int r = database_prepare_text(&reader->database, &question->sql, &rows);
    for (size_t i = 0; i < question->count && r == 0; i++)
        if (question->values[i].is_text)
            sqlite3_bind_text(rows, (int)i + 1, question->values[i].text, -1, SQLITE_STATIC);
        else
            sqlite3_bind_double(rows, (int)i + 1, question->values[i].number);
    if (r == 0)
        r = rows_collect(&reader->database, rows, item_size, read, reader, arena, ret);
    sqlite3_finalize(rows);
    text_done(&question->sql);
    return r;
}

static void reverse(struct any_list *list, size_t item_size)
{
    char *items = list->items, spare[512];

    for (size_t i = 0, k = list->count; i + 1 < k; i++) {
        k--;
        memcpy(spare, items + i * item_size, item_size);
        memcpy(items + i * item_size, items + k * item_size, item_size);
        memcpy(items + k * item_size, spare, item_size);
    }
}

static void ask_int(struct question *question, const char *condition, int64_t value)
{
    ask_number(question, condition, int_is_known(value) ? (double)value : REAL_UNKNOWN);
}

static double limit_value(size_t limit)
{
    return limit ? (double)limit : REAL_UNKNOWN;
}

/* ---- jobs ---- */

/* Nobody is dead who holds a lock in the file that is there now. */
static bool is_alive(struct store_reader *reader, int64_t session)
{
    if (session_is_alive(reader->lock_fd, session))
        return true;
    session_reopen_locks(reader->database.path, &reader->lock_fd);
    return session_is_alive(reader->lock_fd, session);
}

/* A run that says it is running while its writer is gone was lost. */
static void see_lost(struct store_reader *reader, int64_t session, struct job *job)
{
    if (job->outcome != OUTCOME_RUNNING || is_alive(reader, session))
        return;
    job->outcome = OUTCOME_UNKNOWN;
    job->cause = "lost";
}

static int read_job(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    struct store_reader *reader = context;
    struct job *job = item;

    record_init(&job_record, job);
    int r = row_read_columns(&reader->schema.job, row, 1, arena, job);
    job->profile.job_id = job->job_id;
    see_lost(reader, row_read_int(row, 0), job);
    return r;
}

static void select_jobs(const struct store_reader *reader, struct question *question)
{
    text_append_string(&question->sql, "SELECT session, ");
    columns_list(&reader->schema.job, &question->sql, column_name, "");
    text_append_string(&question->sql, " FROM jobs WHERE 1");
}

/* Whether the outcome must be looked at again after see_lost(). */
static bool may_be_lost(int outcome)
{
    return outcome == OUTCOME_RUNNING || outcome == OUTCOME_UNKNOWN;
}

static void keep_outcome(struct job_list *jobs, int outcome, size_t limit)
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
    struct question question = {0};
    struct any_list list;

    select_jobs(reader, &question);
    ask_time(&question, &reader->schema.job, "ended_at", " AND (ended_at >= ? OR ended_at IS NULL)",
             filter->since);
    ask_time(&question, &reader->schema.job, "started_at", " AND started_at <= ?", filter->until);
    ask_text(&question, " AND job_id = ?", filter->job_id);
    ask_text(&question, " AND job_type = ?", filter->job_type);
    ask_text(&question, " AND parent_run_id = ?", filter->parent_run_id);
    ask_int(&question, " AND uid = ?", filter->uid);
    if (may_be_lost(filter->outcome))
        text_append_string(&question.sql, " AND outcome IN ('running', 'unknown')");
    else
        ask_text(&question, " AND outcome = ?", outcome_name(filter->outcome));
    text_append_string(&question.sql, " ORDER BY started_at DESC, id DESC");
    if (!may_be_lost(filter->outcome))
        ask_number(&question, " LIMIT ?", limit_value(filter->limit));
    int r = answer(reader, &question, sizeof(struct job), read_job, arena, &list);
    if (r < 0)
        return r;
    *ret = (struct job_list){.items = list.items, .count = list.count};
    if (may_be_lost(filter->outcome))
        keep_outcome(ret, filter->outcome, filter->limit);
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
    struct question question = {0};
    struct any_list list;

    text_append_string(&question.sql, "SELECT sheet_num, peak_rss_mb, max_cpu_pct FROM sheets");
    ask_text(&question, " WHERE run_id = ? ORDER BY sheet_num", job->run_id);
    int r = answer(reader, &question, sizeof(struct sheet_metric), read_sheet_metric, arena, &list);
    if (r == 0)
        job->profile.sheet_metrics =
            (struct sheet_metric_list){.items = list.items, .count = list.count};
    return r;
}

/* The run that lies `offset` runs of that job back; with `by_run_id` the one of that id. */
static int find_run(struct store_reader *reader, const char *name, bool by_run_id, int64_t offset,
                    struct arena *arena, struct job *ret)
{
    struct question question = {0};
    struct any_list list;

    select_jobs(reader, &question);
    ask_text(&question, by_run_id ? " AND run_id = ?" : " AND job_id = ?", name);
    ask_number(&question, " ORDER BY started_at DESC, id DESC LIMIT 1 OFFSET ?", (double)offset);
    int r = answer(reader, &question, sizeof(struct job), read_job, arena, &list);
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
    struct question question = {0};
    struct any_list list;

    text_append_string(&question.sql, "SELECT ");
    columns_list(&reader->schema.sheet, &question.sql, column_name, "");
    ask_text(&question, " FROM sheets WHERE run_id = ? ORDER BY sheet_num", run_id);
    int r = answer(reader, &question, sizeof(struct sheet), read_sheet, arena, &list);
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

/* ---- events ---- */

static int read_event(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct store_reader *reader = context;
    struct process_event *event = item;

    record_init(&process_event_record, event);
    int r = row_read_text(row, 0, arena, &event->job_id);
    if (r == 0)
        r = row_read_text(row, 1, arena, &event->run_id);
    event->is_step = sqlite3_column_int(row, 2);
    event->tells_calls = false;
    return r < 0 ? r : row_read_columns(&reader->schema.event, row, 3, arena, event);
}

static int read_single_events(struct store_reader *reader, const struct event_filter *filter,
                              struct arena *arena, struct any_list *ret)
{
    const struct column *type = columns_find(&reader->schema.event, "event_type");
    struct question question = {0};

    text_append_string(&question.sql, "SELECT j.job_id, j.run_id, v.is_step, ");
    columns_list(&reader->schema.event, &question.sql, column_select, "v");
    text_append_string(&question.sql, " FROM event v LEFT JOIN jobs j ON j.id = v.run WHERE 1");
    ask_text(&question, " AND v.run = (SELECT id FROM jobs WHERE run_id = ?)", filter->run_id);
    ask_text(&question, " AND v.run IN (SELECT id FROM jobs WHERE job_id = ?)", filter->job_id);
    ask_time(&question, &reader->schema.event, "timestamp", " AND v.timestamp >= ?", filter->since);
    ask_time(&question, &reader->schema.event, "timestamp", " AND v.timestamp <= ?", filter->until);
    ask_int(&question, " AND v.pid = ?", filter->pid);
    ask_int(&question, " AND v.run IN (SELECT id FROM jobs WHERE uid = ?)", filter->uid);
    ask_text(&question, " AND v.event_type = ?", field_enum_name(type->field, filter->event_type));
    if (filter->only_notable)
        text_append_string(&question.sql, " AND " EVENT_IS_NOTABLE("v."));
    text_append_string(&question.sql, " ORDER BY v.timestamp DESC, v.id DESC");
    ask_number(&question, " LIMIT ?", limit_value(filter->limit));
    return answer(reader, &question, sizeof(struct process_event), read_event, arena, ret);
}

/* A sum over some of them says so. */
static int tell_of_rest(struct process_event *event, int64_t cpu_count, struct arena *arena)
{
    char words[96];

    if (!real_is_known(event->cpu_seconds) || cpu_count >= event->count)
        return 0;
    snprintf(words, sizeof(words), "CPU time of %lld of them", (long long)cpu_count);
    event->details = arena_strdup(arena, words);
    return event->details ? 0 : -ENOMEM;
}

static int read_folded_event(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct store_reader *reader = context;
    struct process_event *event = item;
    const char *program;

    record_init(&process_event_record, event);
    event->is_step = event->tells_calls = false;
    event->pid = 0;
    int r = row_read_text(row, 0, arena, &event->job_id);
    if (r == 0)
        r = row_read_text(row, 1, arena, &event->run_id);
    if (r == 0)
        r = row_read_text(row, 2, arena, &program);
    if (r == 0)
        r = column_read(columns_find(&reader->schema.event, "event_type"), row, 3, arena, event);
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
    return tell_of_rest(event, row_read_int(row, 9), arena);
}

static double minute_of(double timestamp)
{
    return floor(timestamp / FOLD_SECONDS); /* unknown stays unknown */
}

static int read_folded_events(struct store_reader *reader, const struct event_filter *filter,
                              struct arena *arena, struct any_list *ret)
{
    const struct column *type = columns_find(&reader->schema.event, "event_type");
    const struct column *time = columns_find(&reader->schema.event, "timestamp");
    struct question question = {0};

    text_append_string(&question.sql,
                       "SELECT j.job_id, j.run_id, f.program, f.event_type, f.code, sum(f.count),"
                       " min(f.first), max(f.last), sum(f.cpu_seconds), sum(f.cpu_count),"
                       " max(f.peak_rss_mb) FROM folded_events f LEFT JOIN jobs j ON j.id = f.run"
                       " WHERE 1");
    ask_text(&question, " AND f.run = (SELECT id FROM jobs WHERE run_id = ?)", filter->run_id);
    ask_text(&question, " AND f.run IN (SELECT id FROM jobs WHERE job_id = ?)", filter->job_id);
    ask_number(&question, " AND f.minute >= ?", minute_of(filter->since));
    ask_number(&question, " AND f.last >= ?", column_round(time, filter->since));
    ask_number(&question, " AND f.minute <= ?", minute_of(filter->until));
    ask_number(&question, " AND f.first <= ?", column_round(time, filter->until));
    ask_int(&question, " AND f.run IN (SELECT id FROM jobs WHERE uid = ?)", filter->uid);
    ask_text(&question, " AND f.event_type = ?", field_enum_name(type->field, filter->event_type));
    if (filter->only_notable)
        text_append_string(&question.sql, " AND " FOLD_IS_NOTABLE("f."));
    text_append_string(&question.sql,
                       " GROUP BY f.run, f.program, f.event_type, f.code"
                       " ORDER BY max(f.last) DESC, f.program, f.event_type, f.code");
    ask_number(&question, " LIMIT ?", limit_value(filter->limit));
    return answer(reader, &question, sizeof(struct process_event), read_folded_event, arena, ret);
}

/* Two lists, latest first, as one, oldest first, of the latest `limit` (0: all) of both. */
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

static int read_events(struct store_reader *reader, const struct event_filter *filter,
                       struct arena *arena, struct process_event_list *ret)
{
    struct any_list single = {0}, folded = {0};

    int r = filter->only_folded ? 0 : read_single_events(reader, filter, arena, &single);
    if (r == 0 && !int_is_known(filter->pid))
        r = read_folded_events(reader, filter, arena, &folded);
    if (r < 0)
        return r;
    if (folded.count) {
        r = merge_events(&single, &folded, filter->limit, arena, ret);
        return r < 0 ? database_fail_errno(&reader->database, r) : 0;
    }
    reverse(&single, sizeof(struct process_event));
    *ret = (struct process_event_list){.items = single.items, .count = single.count};
    return 0;
}

int store_read_events(struct store_reader *reader, const struct event_filter *filter,
                      struct arena *arena, struct process_event_list *ret)
{
    int r = begin_transaction(reader);

    if (r == 0)
        r = read_events(reader, filter, arena, ret);
    end_transaction(reader);
    return r;
}

/* ---- anomalies, gaps, patterns ---- */

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
    struct question question = {0};
    struct any_list list;

    text_append_string(&question.sql, "SELECT uid, ");
    columns_list(&reader->schema.anomaly, &question.sql, column_name, "");
    text_append_string(&question.sql, " FROM anomalies WHERE 1");
    ask_text(&question, " AND run_id = ?", run_id);
    ask_time(&question, &reader->schema.anomaly, "cleared_at",
             " AND (cleared_at >= ? OR cleared_at IS NULL)", since);
    ask_time(&question, &reader->schema.anomaly, "timestamp", " AND timestamp <= ?", until);
    text_append_string(&question.sql, " ORDER BY timestamp, id");
    int r = answer(reader, &question, sizeof(struct anomaly), read_anomaly, arena, &list);
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
    struct question question = {0};
    struct any_list list;

    text_append_string(&question.sql, "SELECT ");
    columns_list(&reader->schema.gap, &question.sql, column_name, "g.");
    text_append_string(&question.sql, " FROM gaps g WHERE 1");
    ask_text(&question,
             " AND EXISTS (SELECT 1 FROM jobs j WHERE j.run_id = ? AND (j.session = g.session OR"
             " EXISTS (SELECT 1 FROM turns t WHERE t.run = j.id AND t.session = g.session))"
             " AND g.timestamp >= min(j.started_at, COALESCE(j.ended_at - j.wall_seconds,"
             " j.started_at)) AND g.timestamp - max(COALESCE(g.seconds, 0), 0) <="
             " COALESCE(j.ended_at, g.timestamp))",
             run_id);
    ask_time(&question, &reader->schema.gap, "timestamp", " AND g.timestamp >= ?", since);
    ask_time(&question, &reader->schema.gap, "timestamp", " AND g.timestamp <= ?", until);
    text_append_string(&question.sql, " ORDER BY g.timestamp, g.id");
    int r = answer(reader, &question, sizeof(struct gap), read_gap, arena, &list);
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
    struct question question = {0};
    struct any_list list;

    text_append_string(&question.sql, "SELECT ");
    columns_list(&reader->schema.pattern, &question.sql, column_name, "");
    text_append_string(&question.sql, " FROM patterns ORDER BY pattern_type, pattern_name");
    int r = answer(reader, &question, sizeof(struct pattern), read_pattern, arena, &list);
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
    struct question question = {0};
    struct any_list list;

    text_append_string(&question.sql,
                       "SELECT s.timestamp, u.rss_mb, u.processes FROM snap s"
                       " JOIN sessions e ON e.id = s.session JOIN usage u ON u.session = s.session"
                       " AND u.is_minute = s.is_minute AND u.tick = s.tick WHERE " SNAPSHOT_COUNTS);
    ask_text(&question, " AND u.run = (SELECT id FROM jobs WHERE run_id = ?)", run_id);
    ask_time(&question, &reader->schema.snapshot, "timestamp", " AND s.timestamp >= ?", since);
    ask_time(&question, &reader->schema.snapshot, "timestamp", " AND s.timestamp <= ?", until);
    text_append_string(&question.sql, " ORDER BY s.timestamp, s.id");
    int r = answer(reader, &question, sizeof(struct memory_point), read_memory_point, arena, &list);
    if (r == 0)
        *ret = (struct memory_point_list){.items = list.items, .count = list.count};
    return r;
}

int store_read_machine(struct store_reader *reader, double since, double until, size_t top,
                       struct arena *arena, struct machine_use *ret)
{
    const struct column *time = columns_find(&reader->schema.snapshot, "timestamp");

    int r = begin_transaction(reader);
    /* Inclusive, both, at the resolution that times are stored at. */
    if (r == 0)
        r = machine_query(&reader->database, &reader->schema,
                          fmin(since, column_round(time, since)),
                          fmax(until, column_round(time, until)), top, arena, ret);
    end_transaction(reader);
    return r;
}
