/* The writing half of store.h: the session, its transactions, and what each call writes in one. */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/record-json.h"
#include "store/anomaly-table.h"
#include "store/ballast.h"
#include "store/database-path.h"
#include "store/event-writer.h"
#include "store/jsonl.h"
#include "store/retention.h"
#include "store/run-table.h"
#include "store/sample-writer.h"
#include "store/session.h"
#include "store/trace-writer.h"

#define RETENTION_SECONDS 3600
/* A session with an interval of this length or longer counts as long-lived. */
#define LONG_LIVED_INTERVAL_SECONDS 1.0

/* After a run was taken over: a few seconds. See event-writer.h. */
#define REPEAT_TICKS 64

struct store {
    struct database database;
    struct schema schema;
    struct session session;
    struct text_pool texts;
    struct run_table runs;
    struct sample_writer samples;
    struct anomaly_table anomalies;
    struct event_writer events;
    sqlite3_stmt *insert_gap;
    sqlite3_stmt *insert_turn;

    struct retention_config retention;
    struct arena arena; /* of one call */
    int64_t ancestors[STORE_ANCESTORS_MAX];
    size_t ancestor_count;

    char *moved_from;
    bool is_long_lived;
    char *jsonl_path;
    uint64_t jsonl_max_bytes;
    struct jsonl *jsonl;
    struct text line;
    int jsonl_error;
};

static double now_sec(void)
{
    return ns_to_sec(clock_real_ns());
}

const char *store_error(const struct store *store)
{
    return store->database.error.text;
}

/* ---- opening and closing ---- */

static int open_database(struct store *store, const char *path)
{
    struct database *database = &store->database;

    if (ballast_check_room(path) < 0) {
        ballast_delete(path);
        if (ballast_check_room(path) < 0)
            return database_fail_with(database, -ENOSPC, "cannot write to '%s': the disk is full",
                                      path);
    }
    int r = database_open(path, DATABASE_WRITE, database);
    if (r == 0)
        r = schema_migrate(&store->schema, database);
    return r;
}

static int open_session(struct store *store, const struct store_options *options)
{
    struct database *database = &store->database;

    int r = session_begin(&store->session, database, options, now_sec());
    if (r == 0)
        r = session_recover_others(&store->session, &store->schema);
    if (r == 0)
        r = text_pool_init(&store->texts, database);
    if (r == 0)
        r = run_table_init(&store->runs, database, &store->schema, store->session.id);
    store->runs.growth_interval = store->is_long_lived ? GROWTH_SNAPSHOTS : 1;
    anomaly_table_init(&store->anomalies, database, &store->schema, store->session.id);
    if (r == 0)
        r = sample_writer_init(&store->samples, database, &store->schema, &store->texts,
                               &store->runs, store->session.id);
    if (r == 0)
        r = event_writer_init(&store->events, database, &store->schema, &store->texts, &store->runs,
                              store->session.id);
    return r;
}

static void release(struct store *store)
{
    sqlite3_finalize(store->insert_gap);
    sqlite3_finalize(store->insert_turn);
    anomaly_table_done(&store->anomalies);
    event_writer_done(&store->events);
    sample_writer_done(&store->samples);
    run_table_done(&store->runs);
    text_pool_done(&store->texts);
    database_close(&store->database);
    session_done(&store->session);
    if (store->jsonl)
        jsonl_close(store->jsonl);
    text_done(&store->line);
    arena_done(&store->arena);
    free(store->moved_from);
    free(store->jsonl_path);
    free(store);
}

static struct store *store_new(const struct store_options *options)
{
    struct store *store = calloc(1, sizeof(*store));
    if (!store)
        return NULL;
    schema_init(&store->schema);
    store->session.lock_fd = -1;
    store->is_long_lived =
        options->is_long_lived || options->interval_seconds >= LONG_LIVED_INTERVAL_SECONDS;
    store->retention = options->retention;
    store->ancestor_count = MIN(options->ancestor_count, (size_t)STORE_ANCESTORS_MAX);
    memcpy(store->ancestors, options->ancestors, sizeof(store->ancestors));
    store->database.should_stop = options->should_stop;
    store->database.context = options->context;
    store->jsonl_max_bytes = (uint64_t)options->jsonl_max_bytes;
    if (options->jsonl_path && *options->jsonl_path) {
        store->jsonl_path = strdup(options->jsonl_path);
        if (!store->jsonl_path) {
            free(store);
            return NULL;
        }
    }
    return store;
}

int store_make_room(struct store *store, double now)
{
    sqlite3 *handle = store->database.handle;

    ballast_delete(store->database.path);
    /* The log first: it may be what fills the disk. */
    sqlite3_wal_checkpoint_v2(handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    int r = retention_run(&store->database, &store->schema, &store->retention, now);
    sqlite3_wal_checkpoint_v2(handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    /* Retention has freed space for a new ballast. */
    if (r == 0)
        ballast_create(store->database.path);
    return MIN(r, 0);
}

static int open_session_with_room(struct store *store, const struct store_options *options)
{
    int r = open_session(store, options);

    if (r == -ENOSPC && store_make_room(store, now_sec()) == 0) {
        session_done(&store->session);
        r = open_session(store, options);
    }
    return r;
}

static int open_at(struct store *store, const struct store_options *options)
{
    const struct database_path_options wanted = {.path = options->path, .create = true};
    _cleanup_database_path_ struct database_path found = {0};
    struct database_path_error error;

    int r = database_path_prepare(&wanted, &found, &error);
    if (r < 0)
        return database_fail_with(&store->database, r, "%s", error.text);
    r = open_database(store, found.path);
    if (r == 0)
        r = open_session_with_room(store, options);
    if (r == 0)
        ballast_create(found.path);
    store->moved_from = TAKE_PTR(found.moved_from);
    if (store->is_long_lived)
        store->database.checkpoint_pages = CHECKPOINT_PAGES_LONG_LIVED;
    return r;
}

int store_open(const struct store_options *options, struct store **ret, struct store_error *error)
{
    struct store *store = store_new(options);

    if (!store) {
        snprintf(error->text, sizeof(error->text), "out of memory");
        return -ENOMEM;
    }
    int r = open_at(store, options);
    if (r < 0) {
        *error = store->database.error;
        release(store);
        return r;
    }
    *ret = store;
    return 0;
}

const char *store_path(const struct store *store)
{
    return store->database.path;
}

const char *store_moved_from(const struct store *store)
{
    return store->moved_from;
}

/* Rolls back a transaction that could not be rolled back before, because memory ran out. */
static void leave_transaction(struct store *store)
{
    if (!sqlite3_get_autocommit(store->database.handle))
        sqlite3_exec(store->database.handle, "ROLLBACK", NULL, NULL, NULL);
}

/* SQLite would continue to write to a deleted or renamed file. */
static int check_path(struct store *store)
{
    int has_moved = 0;

    sqlite3_file_control(store->database.handle, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
    return has_moved ? database_fail_with(&store->database, -ESTALE,
                                          "'%s' was deleted or moved away while it was written to",
                                          store->database.path)
                     : 0;
}

static void prepare_transaction(struct store *store)
{
    leave_transaction(store);
    session_keep_lock(&store->session);
}

/* While the session was unlocked, another writer may have taken it for dead and ended it. */
static int resume_session(struct store *store)
{
    int r = session_resume(&store->session);

    if (r > 0)
        sample_writer_reset(&store->samples);
    return r < 0 ? database_end(&store->database, r) : 0;
}

static int begin_transaction(struct store *store)
{
    prepare_transaction(store);
    int r = check_path(store);
    if (r == 0)
        r = database_begin(&store->database);
    return r == 0 && store->session.was_unlocked ? resume_session(store) : r;
}

static int end_session(struct store *store)
{
    int r = begin_transaction(store);
    if (r < 0)
        return r;
    r = sample_writer_end(&store->samples);
    if (r == 0)
        r = session_mark_jobs_lost(&store->database, store->session.id);
    if (r == 0 && anomaly_table_is_used(&store->anomalies))
        r = session_clear_anomalies(&store->database, store->session.id);
    if (r == 0)
        r = session_write_end(&store->session, now_sec());
    return database_end(&store->database, r);
}

int store_close(struct store *store)
{
    if (!store)
        return 0;
    int r = end_session(store);
    /* The next process that opens the database would have to read the whole log. */
    if (r == 0 && store->is_long_lived)
        sqlite3_wal_checkpoint_v2(store->database.handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
                                  NULL);
    release(store);
    return r;
}

/* After a failure, the state in memory returns to that of the last committed transaction. */
static int end_transaction(struct store *store, int result)
{
    int r = database_end(&store->database, result);

    if (r < 0) {
        sample_writer_reset(&store->samples);
        run_table_reset(&store->runs);
        folded_events_reset(&store->events.folded);
        text_pool_forget_list(&store->texts);
    } else {
        sample_writer_commit(&store->samples);
        run_table_commit(&store->runs);
        folded_events_commit(&store->events.folded);
        store->session.was_unlocked = false;
    }
    arena_reset(&store->arena);
    return r;
}

/* ---- a tick ---- */

static int write_gap(struct store *store, const struct gap *gap)
{
    const struct columns *columns = &store->schema.gap;
    int r = store->insert_gap ? 0
                              : schema_prepare_insert(&store->database, "INSERT", "gaps", "session",
                                                      1, columns, &store->insert_gap);

    if (r < 0)
        return r;
    sqlite3_bind_int64(store->insert_gap, 1, store->session.id);
    r = columns_bind(columns, gap, &store->texts, store->insert_gap, 2);
    return r < 0 ? r : database_run(&store->database, store->insert_gap);
}

/* Records that this session stores events of a run of another session, so that store_read_gaps()
 * returns this session's gaps for it. If the other session has not stored the run yet, a later tick
 * records it. */
static int write_turn(struct store *store, const char *run_id)
{
    int r = store->insert_turn
                ? 0
                : database_prepare(&store->database,
                                   "INSERT OR IGNORE INTO turns SELECT id, ?2, 0 FROM jobs"
                                   " WHERE run_id = ?1 AND session IS NOT ?2",
                                   &store->insert_turn);

    if (r < 0)
        return r;
    sqlite3_bind_text(store->insert_turn, 1, run_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(store->insert_turn, 2, store->session.id);
    return database_run(&store->database, store->insert_turn);
}

/* The command line of the process of an anomaly, from the snapshot or the events of the tick; NULL
 * if neither has it. */
static const char *find_command(const struct tick *tick, int64_t pid)
{
    const struct process_list *processes = tick->snapshot ? &tick->snapshot->processes : NULL;

    for (size_t i = 0; processes && i < processes->count; i++)
        if (processes->items[i].pid == pid && processes->items[i].command)
            return processes->items[i].command;
    for (size_t i = tick->events.count; i > 0; i--)
        if (tick->events.items[i - 1].pid == pid && tick->events.items[i - 1].command)
            return tick->events.items[i - 1].command;
    return NULL;
}

static int write_anomaly(struct store *store, const struct tick *tick,
                         const struct anomaly *anomaly)
{
    const char *command =
        anomaly->is_opening && int_is_known(anomaly->pid) ? find_command(tick, anomaly->pid) : NULL;

    return anomaly_table_write(&store->anomalies, anomaly, command, &store->arena);
}

static bool has_process(const struct snapshot *snapshot, const struct process_trace *trace)
{
    for (size_t i = 0; snapshot && i < snapshot->processes.count; i++)
        if (snapshot->processes.items[i].pid == trace->pid &&
            snapshot->processes.items[i].start_ticks == trace->start_ticks)
            return true;
    return false;
}

static int write_trace(struct store *store, const struct tick *tick,
                       const struct process_trace *trace)
{
    const struct trace_writer writer = {.database = &store->database,
                                        .schema = &store->schema,
                                        .texts = &store->texts,
                                        .session = store->session.id,
                                        .tick = store->samples.tick};

    /* The snapshot holds the trace of a process that is in it, such as a zombie. */
    int r = has_process(tick->snapshot, trace) ? 0 : trace_writer_update_row(&writer, trace);
    return r < 0 ? r : trace_writer_update_end(&writer, trace);
}

static int write_tick(struct store *store, const struct tick *tick)
{
    const struct snapshot *snapshot = tick_stored_snapshot(tick);
    int r = 0;

    for (size_t i = 0; i < tick->gaps.count && r == 0; i++)
        r = write_gap(store, &tick->gaps.items[i]);
    if (r == 0)
        r = event_writer_write(&store->events, &tick->events);
    if (r == 0 && tick->beside_run[0])
        r = write_turn(store, tick->beside_run);
    if (r == 0 && snapshot)
        r = sample_writer_write(&store->samples, snapshot);
    else if (r == 0)
        r = run_table_write_changes(&store->runs);
    for (size_t i = 0; i < tick->traces.count && r == 0; i++)
        r = write_trace(store, tick, &tick->traces.items[i]);
    for (size_t i = 0; i < tick->anomalies.count && r == 0; i++)
        r = write_anomaly(store, tick, &tick->anomalies.items[i]);
    if (r == 0 && store->events.repeat_ticks)
        store->events.repeat_ticks--;
    return r;
}

static int append_line(struct store *store, const struct snapshot *snapshot)
{
    struct json_writer json = {.out = &store->line};

    if (!store->jsonl) {
        int r = jsonl_open(store->jsonl_path, store->jsonl_max_bytes, &store->jsonl);
        if (r < 0)
            return r;
    }
    text_reset(&store->line);
    record_encode(&snapshot_record, snapshot, &json);
    if (text_error(&store->line) < 0) {
        text_done(&store->line);
        return -ENOMEM;
    }
    return jsonl_append(store->jsonl, store->line.bytes, store->line.length);
}

int store_write_tick(struct store *store, const struct tick *tick)
{
    const struct snapshot *snapshot = tick_stored_snapshot(tick);

    int r = begin_transaction(store);
    if (r == 0)
        r = end_transaction(store, write_tick(store, tick));
    if (r == 0 && store->jsonl_path && snapshot)
        store->jsonl_error = append_line(store, snapshot);
    return r;
}

int store_jsonl_error(const struct store *store)
{
    return store->jsonl_error;
}

/* ---- runs, steps, patterns ---- */

/* Makes the job as it is stored: with its parent run, which may have reached the database after
 * this run began. */
static int prepare_job(struct store *store, const struct job *job, char *parent, struct job *ret)
{
    *ret = *job;
    if (ret->parent_run_id)
        return 0;
    int r = session_find_parent(&store->session, store->ancestors, store->ancestor_count, parent);
    if (r > 0)
        ret->parent_run_id = parent;
    return MIN(r, 0);
}

int store_begin_job(struct store *store, const struct job *job,
                    char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES])
{
    char parent[UUID_TEXT_SIZE];
    struct job stored;
    int64_t taken;

    prepare_transaction(store);
    /* The runs of writers that have died do not occupy their names. */
    int r = session_recover_others(&store->session, &store->schema);
    if (r == 0)
        r = begin_transaction(store);
    if (r < 0)
        return r;
    r = prepare_job(store, job, parent, &stored);
    if (r == 0)
        r = run_table_begin_job(&store->runs, &stored, now_sec(), ret_job_id, &taken);
    if (r > 0)
        store->events.repeat_ticks = REPEAT_TICKS;
    if (r == RUN_TAKEN)
        r = sample_writer_inherit(&store->samples, taken);
    return end_transaction(store, r);
}

int store_finish_job(struct store *store, const struct job *job)
{
    char parent[UUID_TEXT_SIZE];
    struct job stored;

    int r = begin_transaction(store);
    if (r < 0)
        return r;
    r = prepare_job(store, job, parent, &stored);
    if (r == 0)
        r = run_table_finish_job(&store->runs, &stored);
    return end_transaction(store, r);
}

int store_write_sheet(struct store *store, const struct sheet *sheet)
{
    int r = begin_transaction(store);
    return r < 0 ? r : end_transaction(store, run_table_put_sheet(&store->runs, sheet));
}

int store_renew_patterns(struct store *store, const char *pattern_type,
                         const struct pattern_list *patterns)
{
    int r = begin_transaction(store);
    return r < 0 ? r
                 : end_transaction(store, anomaly_table_renew_patterns(&store->anomalies,
                                                                       pattern_type, patterns));
}

/* ---- upkeep ---- */

void store_configure(struct store *store, const struct retention_config *retention)
{
    store->retention = *retention;
}

int store_retain(struct store *store, double now)
{
    leave_transaction(store);
    int r = retention_run(&store->database, &store->schema, &store->retention, now);

    if (r == 0)
        ballast_create(store->database.path);
    return r;
}

bool store_retained_lately(struct store *store, double now)
{
    double last = retention_last(&store->database);

    return real_is_known(last) && fabs(now - last) < RETENTION_SECONDS;
}
