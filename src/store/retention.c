#include "store/retention.h"

#include <errno.h>

#include "store/rows.h"

#define SECONDS_PER_HOUR 3600.0
#define SECONDS_PER_DAY  86400.0

/* The size of one transaction: about ten milliseconds of work. */
#define PROCS_PER_STEP 200
#define ROWS_PER_STEP  2000
#define PAGES_PER_STEP "256"

/* ROWS_PER_STEP as SQL text. */
#define ROWS_LIMIT TEXT_OF(ROWS_PER_STEP)

/* Finding unused texts scans all tables: once a day is enough. */
#define SWEEP_SECONDS SECONDS_PER_DAY

/* Up to this fraction of the file (1/10), free pages are kept for new data. */
#define FREE_PAGES_PART 10

static bool must_stop(const struct database *database)
{
    return database->should_stop && database->should_stop(database->context);
}

/* ---- statements in steps ---- */

/* Runs `sql`, which deletes rows below ?1 (a time, or a tick of session ?2), in a transaction of
 * its own, until it deletes fewer than ROWS_PER_STEP rows. Statements on tables with many rows
 * limit themselves to ROWS_LIMIT rows. Returns 0, 1 if cancelled, or a negative errno. */
static int delete_in_steps(struct database *database, const char *sql, double before,
                           int64_t session)
{
    sqlite3_stmt *statement = NULL;
    int changes = ROWS_PER_STEP;

    int r = database_prepare(database, sql, &statement);
    sqlite3_bind_double(statement, 1, before);
    sqlite3_bind_int64(statement, 2, session);
    while (r == 0 && changes >= ROWS_PER_STEP) {
        if (must_stop(database)) {
            r = 1;
            break;
        }
        r = database_begin(database);
        if (r == 0) {
            r = database_run(database, statement);
            changes = sqlite3_changes(database->handle);
            r = database_end(database, r);
        }
    }
    sqlite3_finalize(statement);
    return r;
}

static int run_for_batch(struct database *database, sqlite3_stmt *const *statements,
                         const int64_t *procs, size_t count, int64_t tick)
{
    int r = 0;

    for (size_t i = 0; i < count; i++)
        for (sqlite3_stmt *const *statement = statements; *statement && r == 0; statement++) {
            sqlite3_bind_int64(*statement, 1, procs[i]);
            sqlite3_bind_int64(*statement, 2, tick);
            r = database_run(database, *statement);
        }
    return r;
}

#define STATEMENTS_MAX 3

/* Runs each statement (at most STATEMENTS_MAX, NULL after the last) for each process, with ?1 the
 * process and ?2 a tick; PROCS_PER_STEP processes in each transaction. */
static int run_for_procs(struct database *database, const char *const *sql,
                         const struct int_list *procs, int64_t tick)
{
    sqlite3_stmt *statements[STATEMENTS_MAX + 1] = {0};
    int r = 0;

    for (size_t i = 0; sql[i] && r == 0; i++)
        r = database_prepare(database, sql[i], &statements[i]);
    for (size_t i = 0; i < procs->count && r == 0; i += PROCS_PER_STEP) {
        if (must_stop(database)) {
            r = 1;
            break;
        }
        r = database_begin(database);
        if (r == 0)
            r = database_end(database,
                             run_for_batch(database, statements, procs->items + i,
                                           MIN(procs->count - i, (size_t)PROCS_PER_STEP), tick));
    }
    for (size_t i = 0; statements[i]; i++)
        sqlite3_finalize(statements[i]);
    return r;
}

static int read_id(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    (void)context, (void)arena;
    *(int64_t *)item = sqlite3_column_int64(row, 0);
    return 0;
}

/* The ids that `sql` selects for a session and up to two ticks. */
static int list_ids(struct database *database, const char *sql, int64_t session, int64_t from,
                    int64_t to, struct arena *arena, struct int_list *ret)
{
    sqlite3_stmt *list = NULL;
    struct any_list found = {0};

    int r = database_prepare(database, sql, &list);
    if (r < 0)
        return r;
    sqlite3_bind_int64(list, 1, session);
    sqlite3_bind_int64(list, 2, from);
    sqlite3_bind_int64(list, 3, to);
    r = rows_collect(database, list, sizeof(int64_t), read_id, NULL, arena, &found);
    sqlite3_finalize(list);
    *ret = (struct int_list){.items = found.items, .count = found.count};
    return r;
}

/* ---- samples and minutes of one session ---- */

struct session_bounds {
    int64_t id;
    int64_t folded_tick;
    int64_t full_from;   /* first tick that samples represent */
    int64_t trimmed_to;  /* samples before it are deleted */
    int64_t minute_from; /* first tick that minutes represent */
};

#define DELETE_TICKS(table, is_minute)                                                             \
    "DELETE FROM " table " WHERE session = ?2 AND is_minute = " is_minute " AND tick <= (SELECT"   \
    " max(tick) FROM (SELECT tick FROM " table " WHERE session = ?2 AND is_minute = " is_minute    \
    " AND tick < ?1 ORDER BY tick LIMIT " ROWS_LIMIT "))"

static int delete_ticks(struct database *database, const char *const *sql, int64_t before,
                        int64_t session)
{
    int r = 0;

    for (; *sql && r == 0; sql++)
        r = delete_in_steps(database, *sql, (double)before, session);
    return r;
}

#define ALIVE_BETWEEN                                                                              \
    "SELECT id FROM proc WHERE session = ?1 AND last_tick >= ?2 AND first_tick < ?3"

static int trim_samples(struct database *database, const struct session_bounds *session)
{
    /* The last row at or before the boundary is still valid after it, if the process lives on. */
    static const char *const trim[] = {
        "DELETE FROM history WHERE proc = ?1 AND tick < COALESCE((SELECT max(tick) FROM history"
        " WHERE proc = ?1 AND tick <= ?2 AND (SELECT last_tick FROM proc WHERE id = ?1) >= ?2),"
        " ?2)",
        NULL,
    };
    static const char *const ticks[] = {
        DELETE_TICKS("gpu", "0"),
        DELETE_TICKS("usage", "0"),
        DELETE_TICKS("snap", "0"),
        NULL,
    };
    struct arena arena = {0};
    struct int_list procs;

    int r = list_ids(database, ALIVE_BETWEEN, session->id, session->trimmed_to, session->full_from,
                     &arena, &procs);
    if (r == 0)
        r = run_for_procs(database, trim, &procs, session->full_from);
    arena_done(&arena);
    if (r == 0)
        r = delete_ticks(database, ticks, session->full_from, session->id);
    if (r == 0)
        r = database_run_ints(database, "UPDATE sessions SET trimmed_to = ?2 WHERE id = ?1",
                              session->id, session->full_from);
    return r;
}

static int trim_minutes(struct database *database, const struct session_bounds *session)
{
    static const char *const delete_all[] = {
        "DELETE FROM minute WHERE proc = ?1",
        "DELETE FROM history WHERE proc = ?1",
        "DELETE FROM proc WHERE id = ?1",
        NULL,
    };
    static const char *const trim[] = {
        "DELETE FROM minute WHERE proc = ?1 AND tick <"
        " (SELECT max(tick) FROM minute WHERE proc = ?1 AND tick <= ?2)",
        NULL,
    };
    /* The minutes of snap last: their rows show that there is work left. */
    static const char *const ticks[] = {
        DELETE_TICKS("gpu", "1"),
        DELETE_TICKS("usage", "1"),
        DELETE_TICKS("snap", "1"),
        NULL,
    };
    struct arena arena = {0};
    struct int_list procs;

    int r = list_ids(database, "SELECT id FROM proc WHERE session = ?1 AND last_tick < ?2",
                     session->id, session->minute_from, 0, &arena, &procs);
    if (r == 0)
        r = run_for_procs(database, delete_all, &procs, session->minute_from);
    if (r == 0)
        r = list_ids(database, ALIVE_BETWEEN, session->id, session->minute_from,
                     session->minute_from, &arena, &procs);
    if (r == 0)
        r = run_for_procs(database, trim, &procs, session->minute_from);
    arena_done(&arena);
    return r == 0 ? delete_ticks(database, ticks, session->minute_from, session->id) : r;
}

/* Timestamps outside of these limits have expired. A timestamp more than a day in the future is
 * wrong and expires, too. */
struct age_limit {
    double before;
    double after;
};

/* Finds the last tick, up to `up_to_tick`, of the minutes before the first one that has not
 * expired. Returns 1, or 0 if there is none. It is not simply the last expired minute: after a
 * clock was wrong for a while, that would delete valid minutes before it. */
static int find_last_minute(struct database *database, const struct session_bounds *session,
                            const struct age_limit *limit, int64_t up_to_tick, int64_t *ret_tick)
{
    sqlite3_stmt *query = NULL;

    int r = database_prepare(database,
                             "SELECT max(to_tick) FROM snap WHERE session = ?1 AND is_minute = 1"
                             " AND tick < COALESCE((SELECT min(tick) FROM snap WHERE session = ?1"
                             " AND is_minute = 1 AND timestamp >= ?2 AND timestamp <= ?3),"
                             " " TICK_OPEN_TEXT ") AND to_tick <= ?4",
                             &query);
    if (r < 0)
        return r;
    sqlite3_bind_int64(query, 1, session->id);
    sqlite3_bind_double(query, 2, limit->before);
    sqlite3_bind_double(query, 3, limit->after);
    sqlite3_bind_int64(query, 4, up_to_tick);
    r = database_step_int(database, query, ret_tick);
    sqlite3_finalize(query);
    return r;
}

static int expire_samples(struct database *database, struct session_bounds *session,
                          const struct age_limit *limit)
{
    int64_t last;

    /* Samples that are not folded yet are kept: deletion works by process, on `history`. */
    int r = find_last_minute(database, session, limit, session->folded_tick, &last);
    if (r < 0)
        return r;
    if (r > 0 && last + 1 > session->full_from) {
        session->full_from = last + 1;
        r = database_run_ints(database, "UPDATE sessions SET full_from = ?2 WHERE id = ?1",
                              session->id, session->full_from);
        if (r < 0)
            return r;
    }
    return session->trimmed_to < session->full_from ? trim_samples(database, session) : 0;
}

static int expire_minutes(struct database *database, struct session_bounds *session,
                          const struct age_limit *limit)
{
    int64_t last;

    int r = find_last_minute(database, session, limit, session->full_from - 1, &last);
    if (r <= 0)
        return r;
    session->minute_from = MAX(session->minute_from, last + 1);
    r = database_run_ints(database, "UPDATE sessions SET minute_from = ?2 WHERE id = ?1",
                          session->id, session->minute_from);
    return r < 0 ? r : trim_minutes(database, session);
}

static int read_bounds(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    (void)context, (void)arena;
    *(struct session_bounds *)item = (struct session_bounds){
        .id = sqlite3_column_int64(row, 0),
        .folded_tick = sqlite3_column_int64(row, 1),
        .full_from = sqlite3_column_int64(row, 2),
        .trimmed_to = sqlite3_column_int64(row, 3),
        .minute_from = sqlite3_column_int64(row, 4),
    };
    return 0;
}

static int expire_sessions(struct database *database, const struct age_limit *samples,
                           const struct age_limit *minutes)
{
    struct arena arena = {0};
    struct any_list found = {0};
    sqlite3_stmt *list = NULL;

    int r = database_prepare(database,
                             "SELECT id, folded_tick, full_from, trimmed_to, minute_from"
                             " FROM sessions WHERE id IN"
                             " (SELECT session FROM snap WHERE timestamp < ?1 OR timestamp > ?2)",
                             &list);
    if (r < 0)
        return r;
    sqlite3_bind_double(list, 1, samples->before);
    sqlite3_bind_double(list, 2, samples->after);
    r = rows_collect(database, list, sizeof(struct session_bounds), read_bounds, NULL, &arena,
                     &found);
    sqlite3_finalize(list);
    struct session_bounds *sessions = found.items;
    for (size_t i = 0; i < found.count && r == 0; i++) {
        r = expire_samples(database, &sessions[i], samples);
        if (r == 0)
            r = expire_minutes(database, &sessions[i], minutes);
    }
    arena_done(&arena);
    return r;
}

/* ---- the rest ---- */

#define DELETE_SOME(table, key, condition)                                                         \
    "DELETE FROM " table " WHERE " key " IN (SELECT " key " FROM " table " WHERE " condition       \
    " LIMIT " ROWS_LIMIT ")"

static int delete_old(struct database *database, double events_before, double jobs_before)
{
    const struct {
        const char *sql;
        double before;
    } deletions[] = {
        {DELETE_SOME("event", "id", "timestamp < ?1"), events_before},
        /* Without ROWS_LIMIT: at most FOLD_MINUTE_MAX rows of a run and minute. */
        {"DELETE FROM folded_events WHERE minute <= CAST(?1 / 60 AS INTEGER) AND last < ?1",
         events_before},
        {DELETE_SOME("gaps", "id", "timestamp < ?1"), jobs_before},
        {DELETE_SOME("anomalies", "id", "timestamp < ?1"), jobs_before},
        {DELETE_SOME("jobs", "id", "ended_at < ?1"), jobs_before},
        /* Without ROWS_LIMIT: few rows of each run, or of each job type. */
        {"DELETE FROM sheets WHERE COALESCE(ended_at, started_at, 0) < ?1"
         " AND run_id NOT IN (SELECT run_id FROM jobs)",
         jobs_before},
        {"DELETE FROM turns WHERE run NOT IN (SELECT id FROM jobs)", jobs_before},
        {"DELETE FROM patterns WHERE last_seen < ?1", jobs_before},
        {DELETE_SOME("sessions", "id",
                     "ended_at < ?1 AND NOT EXISTS (SELECT 1 FROM snap s"
                     " WHERE s.session = sessions.id)"),
         jobs_before},
    };
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(deletions) && r == 0; i++)
        r = delete_in_steps(database, deletions[i].sql, deletions[i].before, 0);
    return r;
}

static double read_time(struct database *database, const char *name)
{
    sqlite3_stmt *query = NULL;
    double at = REAL_UNKNOWN;

    if (database_prepare(database, "SELECT at FROM upkeep WHERE name = ?1", &query) < 0)
        return at;
    sqlite3_bind_text(query, 1, name, -1, SQLITE_STATIC);
    if (database_step(database, query) > 0)
        at = row_read_real(query, 0);
    sqlite3_finalize(query);
    return at;
}

static int write_time(struct database *database, const char *name, double now)
{
    sqlite3_stmt *put = NULL;

    int r = database_prepare(database, "INSERT OR REPLACE INTO upkeep VALUES (?1, ?2)", &put);
    if (r < 0)
        return r;
    sqlite3_bind_text(put, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_double(put, 2, now);
    r = database_run(database, put);
    sqlite3_finalize(put);
    return r;
}

double retention_last(struct database *database)
{
    return read_time(database, "retention");
}

/* Deletes texts that no row refers to. */
static int sweep_texts(struct database *database, const struct schema *schema, double now)
{
    _cleanup_text_ struct text sql = {0};
    double last = read_time(database, "sweep");

    if (now - last < SWEEP_SECONDS && now >= last)
        return 0;
    text_append_string(&sql, "DELETE FROM text WHERE id NOT IN (");
    schema_write_text_uses(schema, &sql);
    text_append_string(&sql, ")");
    if (text_error(&sql) < 0)
        return database_fail_errno(database, -ENOMEM);
    int r = database_begin(database);
    if (r < 0)
        return r;
    r = database_exec(database, text_string(&sql));
    if (r == 0)
        r = write_time(database, "sweep", now);
    return database_end(database, r);
}

/* Returns free pages to the filesystem in small steps. */
static int release_pages(struct database *database)
{
    int64_t free_pages = 0, before = INT64_MAX, pages = 0;

    /* Stops without progress: a file made without incremental vacuum releases none. */
    for (;; before = free_pages) {
        int r = database_query_int(database, "PRAGMA freelist_count", &free_pages);
        if (r == 0)
            r = database_query_int(database, "PRAGMA page_count", &pages);
        if (r < 0 || free_pages <= pages / FREE_PAGES_PART || free_pages >= before)
            return r;
        if (must_stop(database))
            return 1;
        r = database_begin(database);
        if (r == 0)
            r = database_end(
                database, database_exec(database, "PRAGMA incremental_vacuum(" PAGES_PER_STEP ")"));
        if (r < 0)
            return r;
    }
}

int retention_run(struct database *database, const struct schema *schema,
                  const struct retention_config *config, double now)
{
    const double ahead = now + SECONDS_PER_DAY;
    const struct age_limit samples = {now - config->full_resolution_hours * SECONDS_PER_HOUR,
                                      ahead};
    const struct age_limit minutes = {now - config->downsampled_days * SECONDS_PER_DAY, ahead};

    int r = expire_sessions(database, &samples, &minutes);
    if (r == 0)
        r = delete_old(database, now - config->events_days * SECONDS_PER_DAY,
                       now - config->jobs_days * SECONDS_PER_DAY);
    if (r == 0)
        r = sweep_texts(database, schema, now);
    if (r == 0)
        r = release_pages(database);
    return r == 0 ? write_time(database, "retention", now) : r;
}
