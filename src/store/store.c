/* The embedded store: the SQLite database and the JSONL log behind the interface of store.h. */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "model/record-json.h"
#include "model/redact.h"
#include "store/anomaly-table.h"
#include "store/ballast.h"
#include "store/database-path.h"
#include "store/folded-events.h"
#include "store/jsonl.h"
#include "store/retention.h"
#include "store/run-table.h"
#include "store/sample-writer.h"
#include "store/session.h"
#include "store/trace-writer.h"

#define RETENTION_SECONDS 3600
/* Who samples as seldom as this is there for long. */
#define STAYS_INTERVAL_SECONDS 1.0

/* After a run was taken over: some seconds. */
#define REPEAT_TICKS 64

struct store {
    struct database database;
    struct schema schema;
    struct session session;
    struct text_pool texts;
    struct run_table runs;
    struct sample_writer samples;
    struct anomaly_table anomalies;
    struct folded_events folded;
    sqlite3_stmt *insert_event;
    sqlite3_stmt *insert_gap;
    sqlite3_stmt *insert_turn;

    const struct text_list *redact;
    struct retention_config retention;
    struct arena arena;    /* of one call */
    unsigned repeat_ticks; /* that may tell of events which are there already */
    int64_t ancestors[STORE_ANCESTORS_MAX];
    size_t ancestor_count;

    char *moved_from;
    bool stays; /* a daemon, by its interval */
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
        ballast_drop(path);
        if (ballast_check_room(path) < 0)
            return database_fail_with(database, -ENOSPC, "cannot write in '%s': the disk is full",
                                      path);
    }
    int r = database_open(path, DATABASE_WRITE, database);
    if (r == 0)
        r = schema_bring_up(&store->schema, database);
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
    store->runs.patience = store->stays ? GROWTH_SNAPSHOTS : 1;
    anomaly_table_init(&store->anomalies, database, &store->schema, store->session.id);
    folded_events_init(&store->folded, database, store->session.id, store->redact);
    if (r == 0)
        r = sample_writer_init(&store->samples, database, &store->schema, &store->texts,
                               &store->runs, store->redact, store->session.id);
    if (r == 0)
        r = schema_prepare_insert(database, "INSERT", "event", "run, is_step", 2,
                                  &store->schema.event, &store->insert_event);
    return r;
}

static void release(struct store *store)
{
    sqlite3_finalize(store->insert_event);
    sqlite3_finalize(store->insert_gap);
    sqlite3_finalize(store->insert_turn);
    anomaly_table_done(&store->anomalies);
    folded_events_done(&store->folded);
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
    store->redact = options->redact;
    store->stays = options->stays || options->interval_seconds >= STAYS_INTERVAL_SECONDS;
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

static int make_room(struct store *store, double now)
{
    sqlite3 *handle = store->database.handle;

    ballast_drop(store->database.path);
    /* The log first: it may be what fills the disk. */
    sqlite3_wal_checkpoint_v2(handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    int r = retention_run(&store->database, &store->schema, &store->retention, now);
    sqlite3_wal_checkpoint_v2(handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    /* For the next time, out of what was given back. */
    if (r == 0)
        ballast_keep(store->database.path);
    return MIN(r, 0);
}

static int open_session_with_room(struct store *store, const struct store_options *options)
{
    int r = open_session(store, options);

    if (r == -ENOSPC && make_room(store, now_sec()) == 0) {
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
        ballast_keep(found.path);
    store->moved_from = TAKE_PTR(found.moved_from);
    if (store->stays)
        store->database.checkpoint_pages = CHECKPOINT_PAGES_STAYS;
    return r;
}

int store_open(const struct store_options *options, struct store **ret, struct store_error *error)
{
    struct store *store = store_new(options);

    if (!store) {
        snprintf(error->text, sizeof(error->text), "no memory left");
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

/* A transaction that had no memory left even to be taken back is taken back now. */
static void leave_transaction(struct store *store)
{
    if (!sqlite3_get_autocommit(store->database.handle))
        sqlite3_exec(store->database.handle, "ROLLBACK", NULL, NULL, NULL);
}

/* SQLite would go on writing to a file that nobody can find any more. */
static int check_place(struct store *store)
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

/* Whoever came while the lock was gone has ended the session: it is taken up again. */
static int come_back(struct store *store)
{
    int r = session_come_back(&store->session);

    if (r > 0)
        sample_writer_reset(&store->samples);
    return r < 0 ? database_end(&store->database, r) : 0;
}

static int begin_transaction(struct store *store)
{
    prepare_transaction(store);
    int r = check_place(store);
    if (r == 0)
        r = database_begin(&store->database);
    return r == 0 && store->session.was_unlocked ? come_back(store) : r;
}

static int end_session(struct store *store)
{
    int r = begin_transaction(store);
    if (r < 0)
        return r;
    r = sample_writer_end(&store->samples);
    if (r == 0)
        r = session_lose_jobs(&store->database, store->session.id);
    if (r == 0 && anomaly_table_is_used(&store->anomalies))
        r = session_clear_anomalies(&store->database, store->session.id);
    if (r == 0)
        r = session_note_end(&store->session, now_sec());
    return database_end(&store->database, r);
}

int store_close(struct store *store)
{
    if (!store)
        return 0;
    int r = end_session(store);
    /* Whoever comes next should not have to read a long log. */
    if (r == 0 && store->stays)
        sqlite3_wal_checkpoint_v2(store->database.handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
                                  NULL);
    release(store);
    return r;
}

/* If it fails, what is in memory goes back to what is in the database. */
static int end_transaction(struct store *store, int result)
{
    int r = database_end(&store->database, result);

    if (r < 0) {
        sample_writer_reset(&store->samples);
        run_table_reset(&store->runs);
        folded_events_reset(&store->folded);
        text_pool_forget_list(&store->texts);
    } else {
        sample_writer_commit(&store->samples);
        run_table_commit(&store->runs);
        folded_events_commit(&store->folded);
        store->session.was_unlocked = false;
    }
    arena_reset(&store->arena);
    return r;
}

/* ---- secrets ---- */

static int hide(struct store *store, const char **text)
{
    return redact_replace(store->redact, &store->arena, text);
}

static int hide_all(struct store *store, const char **first, const char **second,
                    const char **third)
{
    int r = hide(store, first);
    if (r == 0)
        r = hide(store, second);
    if (r == 0)
        r = hide(store, third);
    return r < 0 ? database_fail_with(&store->database, r, "no memory left") : 0;
}

/* ---- a tick ---- */

/* Whoever takes a run over tells of the last moments once more, because nobody knows how much of
 * them the writer before has got to the disk. 1: it is there already. What came while that one was
 * folding a storm is among what it folded, or was stored beside it. */
static int is_repeated(struct store *store, const struct run_row *run,
                       const struct process_event *event)
{
    static const char ask_sql[] =
        "SELECT 1 FROM event WHERE run = ?1 AND timestamp BETWEEN ?2 - 0.005 AND ?2 + 0.005"
        " AND pid = ?3 AND event_type = ?4 UNION ALL SELECT 1 FROM folded_events WHERE run = ?1"
        " AND session <> ?5 AND ?2 BETWEEN first AND last LIMIT 1";
    const struct field *type = record_find(&process_event_record, "event_type");
    sqlite3_stmt *ask = NULL;
    int64_t one;

    int r = database_prepare(&store->database, ask_sql, &ask);
    if (r < 0)
        return r;
    sqlite3_bind_int64(ask, 1, run->id);
    sqlite3_bind_double(ask, 2, event->timestamp);
    sqlite3_bind_int64(ask, 3, event->pid);
    sqlite3_bind_text(ask, 4, field_enum_name(type, event->event_type), -1, SQLITE_STATIC);
    sqlite3_bind_int64(ask, 5, store->session.id);
    r = database_step_int(&store->database, ask, &one);
    sqlite3_finalize(ask);
    return r;
}

static int insert_event(struct store *store, const struct run_row *run,
                        const struct process_event *event)
{
    struct process_event shown = *event;

    int r = hide_all(store, &shown.command, &shown.sender_command, &shown.details);
    if (r < 0)
        return r;
    column_bind_code(store->insert_event, 1, run ? run->id : INT_UNKNOWN);
    column_bind_code(store->insert_event, 2, event->is_step ? 1 : INT_UNKNOWN);
    r = columns_bind(&store->schema.event, &shown, &store->texts, store->insert_event, 3);
    return r < 0 ? r : database_run(&store->database, store->insert_event);
}

/* One by one, or folded if it is one of a storm; steps, and what is nobody's, are never that many.
 */
static int write_event(struct store *store, const struct process_event *event)
{
    struct run_row *run = NULL;
    int is_of_storm = 0;

    int r = event->run_id ? run_table_get(&store->runs, event->run_id, event->job_id, &run) : 0;
    if (r == 0 && run && store->repeat_ticks)
        r = is_repeated(store, run, event);
    if (r != 0)
        return MIN(r, 0);
    if (run && !event->is_step)
        is_of_storm = folded_events_must_fold(&store->folded, run->id, event);
    if (is_of_storm < 0)
        return is_of_storm;
    r = is_of_storm ? folded_events_add(&store->folded, run->id, event)
                    : insert_event(store, run, event);
    if (r == 0 && run)
        run_table_add_event(run, event);
    return r;
}

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

/* The gaps of this session are then found for the run. A run that is not there yet, because the
 * session that stores it has not begun to, is noted with a later tick. */
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

/* Of the process that an anomaly is about, as far as the tick tells: in the snapshot, whose
 * commands are redacted when it is written, or with its end. */
static int find_command(struct store *store, const struct tick *tick, int64_t pid, const char **ret)
{
    const struct process_list *processes = tick->snapshot ? &tick->snapshot->processes : NULL;

    *ret = NULL;
    for (size_t i = 0; processes && i < processes->count && !*ret; i++)
        if (processes->items[i].pid == pid)
            *ret = processes->items[i].command;
    for (size_t i = tick->events.count; i > 0 && !*ret; i--)
        if (tick->events.items[i - 1].pid == pid)
            *ret = tick->events.items[i - 1].command;
    return hide(store, ret);
}

static int write_anomaly(struct store *store, const struct tick *tick,
                         const struct anomaly *anomaly)
{
    struct anomaly shown = *anomaly;
    const char *command = NULL;

    int r = hide(store, &shown.description);
    if (r == 0 && anomaly->is_opening && int_is_known(anomaly->pid))
        r = find_command(store, tick, anomaly->pid, &command);
    if (r < 0)
        return database_fail_with(&store->database, r, "no memory left");
    return anomaly_table_write(&store->anomalies, &shown, command, &store->arena);
}

/* A process that is in the snapshot shows it there. */
static bool is_in(const struct snapshot *snapshot, const struct process_trace *trace)
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

    /* A zombie has ended, and is in the snapshot. */
    int r = is_in(tick->snapshot, trace) ? 0 : trace_writer_update_row(&writer, trace);
    return r < 0 ? r : trace_writer_update_end(&writer, trace);
}

static int write_events(struct store *store, const struct process_event_list *events)
{
    int r = 0;

    folded_events_begin(&store->folded, events);
    for (size_t i = 0; i < events->count && r == 0; i++)
        r = write_event(store, &events->items[i]);
    return r < 0 ? r : folded_events_write(&store->folded);
}

static int write_tick(struct store *store, struct tick *tick)
{
    struct snapshot *snapshot = tick_stored_snapshot(tick);
    int r = 0;

    for (size_t i = 0; i < tick->gaps.count && r == 0; i++)
        r = write_gap(store, &tick->gaps.items[i]);
    if (r == 0)
        r = write_events(store, &tick->events);
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
    if (r == 0 && store->repeat_ticks)
        store->repeat_ticks--;
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

int store_write_tick(struct store *store, struct tick *tick)
{
    struct snapshot *snapshot = tick_stored_snapshot(tick);

    int r = begin_transaction(store);
    if (r == 0)
        r = end_transaction(store, write_tick(store, tick));
    /* Only what was redacted, which the database has just seen to, may go there. */
    if (r == 0 && store->jsonl_path && snapshot)
        store->jsonl_error = append_line(store, snapshot);
    return r;
}

int store_jsonl_error(const struct store *store)
{
    return store->jsonl_error;
}

/* ---- jobs, sheets, anomalies, patterns ---- */

/* The list is the caller's: what is stored is a copy. */
static int hide_chain(struct store *store, struct process_event_list *chain)
{
    struct process_event *copy =
        arena_alloc(&store->arena, chain->count * sizeof(*copy) + 1); /* none is fine */
    int r = copy ? 0 : database_fail_with(&store->database, -ENOMEM, "no memory left");

    for (size_t i = 0; i < chain->count && r == 0; i++) {
        copy[i] = chain->items[i];
        r = hide_all(store, &copy[i].command, &copy[i].sender_command, &copy[i].details);
    }
    if (r == 0 && chain->count)
        chain->items = copy;
    return r;
}

/* What is stored of a job: secrets hidden, and the run that it was started in, which may have come
 * to the database after it. */
static int prepare_job(struct store *store, const struct job *job, char *parent, struct job *ret)
{
    *ret = *job;
    int r = hide_all(store, &ret->command, &ret->cause, &ret->job_type);
    if (r == 0)
        r = hide_chain(store, &ret->chain);
    if (r < 0 || ret->parent_run_id)
        return r;
    r = session_find_parent(&store->session, store->ancestors, store->ancestor_count, parent);
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
    /* Whoever has died meanwhile holds no name any more. */
    int r = session_recover_others(&store->session, &store->schema);
    if (r == 0)
        r = begin_transaction(store);
    if (r < 0)
        return r;
    r = prepare_job(store, job, parent, &stored);
    if (r == 0)
        r = run_table_begin_job(&store->runs, &stored, now_sec(), ret_job_id, &taken);
    if (r > 0)
        store->repeat_ticks = REPEAT_TICKS;
    if (r == RUN_TAKEN)
        r = sample_writer_expect(&store->samples, taken);
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

int store_write_anomaly(struct store *store, const struct anomaly *anomaly)
{
    const struct tick alone = {.snapshot = NULL};

    int r = begin_transaction(store);
    return r < 0 ? r : end_transaction(store, write_anomaly(store, &alone, anomaly));
}

int store_write_pattern(struct store *store, const struct pattern *pattern)
{
    int r = begin_transaction(store);
    return r < 0 ? r
                 : end_transaction(store, anomaly_table_put_pattern(&store->anomalies, pattern));
}

int store_delete_pattern(struct store *store, const char *pattern_type, const char *pattern_name)
{
    int r = begin_transaction(store);
    return r < 0 ? r
                 : end_transaction(store, anomaly_table_delete_pattern(&store->anomalies,
                                                                       pattern_type, pattern_name));
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

void store_configure(struct store *store, const struct text_list *redact,
                     const struct retention_config *retention)
{
    store->redact = redact;
    store->folded.redact = redact;
    store->retention = *retention;
    sample_writer_configure(&store->samples, redact);
}

int store_retain(struct store *store, double now)
{
    leave_transaction(store);
    int r = retention_run(&store->database, &store->schema, &store->retention, now);

    if (r == 0)
        ballast_keep(store->database.path);
    return r;
}

bool store_retained_lately(struct store *store, double now)
{
    double last = retention_last(&store->database);

    return real_is_known(last) && fabs(now - last) < RETENTION_SECONDS;
}

int store_make_room(struct store *store, double now)
{
    return make_room(store, now);
}
