#include "store/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd-io.h"
#include "base/vec.h"
#include "store/minute-roller.h"
#include "store/rows.h"
#include "store/sample-reader.h"

/* ---- the lock ---- */

int session_open_locks(const char *database_path, bool for_writing)
{
    _cleanup_text_ struct text path = {0};

    text_printf(&path, "%s-lock", database_path);
    if (text_error(&path) < 0)
        return -ENOMEM;
    if (for_writing) {
        int made_fd = fd_open_output(text_string(&path), O_CREAT, 0600);
        if (made_fd >= 0)
            fchmod(made_fd, 0600); /* regardless of the umask */
        return made_fd;
    }
    int fd = open(text_string(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

void session_reopen_locks(const char *database_path, int *lock_fd)
{
    int fd = session_open_locks(database_path, false);
    struct stat before, now;

    if (fd < 0)
        return;
    bool is_same = *lock_fd >= 0 && fstat(*lock_fd, &before) == 0 && fstat(fd, &now) == 0 &&
                   before.st_dev == now.st_dev && before.st_ino == now.st_ino;
    close_fd(is_same ? fd : *lock_fd);
    if (!is_same)
        *lock_fd = fd;
}

static struct flock lock_of(int64_t id, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)id, .l_len = 1};
}

bool session_is_alive(int lock_fd, int64_t id)
{
    struct flock lock = lock_of(id, F_RDLCK);

    if (lock_fd < 0)
        return false;
    /* After an error, the session counts as alive. */
    return fcntl(lock_fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* ---- beginning and ending ---- */

static int insert_session(struct session *session, const struct store_options *options, double now)
{
    struct database *database = session->database;
    sqlite3_stmt *insert = NULL;

    int r = database_prepare(database,
                             "INSERT INTO sessions (host, boot_id, pid, collector,"
                             " interval_seconds, version, started_at)"
                             " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                             &insert);
    if (r < 0)
        return r;
    sqlite3_bind_text(insert, 1, options->host, -1, SQLITE_STATIC);
    sqlite3_bind_text(insert, 2, options->boot_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 3, getpid());
    sqlite3_bind_text(insert, 4, options->collector, -1, SQLITE_STATIC);
    sqlite3_bind_double(insert, 5, options->interval_seconds);
    sqlite3_bind_text(insert, 6, SONDE_VERSION, -1, SQLITE_STATIC);
    sqlite3_bind_double(insert, 7, now);
    r = database_run(database, insert);
    sqlite3_finalize(insert);
    session->id = sqlite3_last_insert_rowid(database->handle);
    return r;
}

/* Called before the session is visible, so that no writer ends it. Takes ownership of `fd`. */
static int lock_session(struct session *session, int fd)
{
    struct flock lock = lock_of(session->id, F_WRLCK);
    struct stat st;

    if (fcntl(fd, F_OFD_SETLK, &lock) < 0 || fstat(fd, &st) < 0) {
        int r = -errno;
        close_fd(fd);
        return r;
    }
    close_fd(session->lock_fd);
    session->lock_fd = fd;
    session->lock_device = st.st_dev;
    session->lock_inode = st.st_ino;
    return 0;
}

static int open_lock(struct session *session, int *ret_fd)
{
    struct database *database = session->database;

    if (asprintf(&session->lock_path, "%s-lock", database->path) < 0) {
        session->lock_path = NULL;
        return database_fail_errno(database, -ENOMEM);
    }
    int fd = session_open_locks(database->path, true);
    if (fd < 0)
        return database_fail_with(database, fd, "cannot open '%s': %s", session->lock_path,
                                  strerror(-fd));
    *ret_fd = fd;
    return 0;
}

int session_begin(struct session *session, struct database *database,
                  const struct store_options *options, double now)
{
    _cleanup_close_ int fd = -1;

    *session = (struct session){.database = database, .lock_fd = -1};
    int r = open_lock(session, &fd);
    if (r == 0)
        r = database_begin(database);
    if (r < 0)
        return r;
    r = insert_session(session, options, now);
    if (r == 0) {
        r = lock_session(session, TAKE_FD(fd));
        if (r < 0)
            database_fail_with(database, r, "cannot lock '%s': %s", session->lock_path,
                               strerror(-r));
    }
    return database_end(database, r);
}

void session_done(struct session *session)
{
    session->lock_fd = close_fd(session->lock_fd);
    free(session->lock_path);
    session->lock_path = NULL;
}

void session_keep_lock(struct session *session)
{
    struct stat st;

    if (lstat(session->lock_path, &st) == 0 && st.st_ino == session->lock_inode &&
        st.st_dev == session->lock_device)
        return;
    session->was_unlocked = true;
    int fd = session_open_locks(session->database->path, true);
    if (fd >= 0)
        lock_session(session, fd);
}

int session_resume(struct session *session)
{
    struct database *database = session->database;

    int r = database_run_ints(
        database, "UPDATE sessions SET ended_at = NULL WHERE id = ?1 AND ended_at IS NOT NULL",
        session->id, 0);
    if (r < 0 || !sqlite3_changes(database->handle))
        return r;
    r = database_run_ints(database,
                          "UPDATE jobs SET outcome = 'running', ended_at = NULL, cause = NULL"
                          " WHERE session = ?1 AND outcome = 'unknown' AND cause = 'lost'",
                          session->id, 0);
    return r < 0 ? r : 1;
}

int session_write_end(struct session *session, double now)
{
    sqlite3_stmt *update = NULL;

    int r = database_prepare(session->database, "UPDATE sessions SET ended_at = ?2 WHERE id = ?1",
                             &update);
    if (r < 0)
        return r;
    sqlite3_bind_int64(update, 1, session->id);
    sqlite3_bind_double(update, 2, now);
    r = database_run(session->database, update);
    sqlite3_finalize(update);
    return r;
}

/* ---- runs within runs ---- */

static int find_run_of(const struct session *session, sqlite3_stmt *query,
                       char ret_run_id[static UUID_TEXT_SIZE])
{
    int r = database_step(session->database, query);

    if (r > 0) {
        const char *run_id = (const char *)sqlite3_column_text(query, 0);
        r = run_id && session_is_alive(session->lock_fd, sqlite3_column_int64(query, 1));
        if (r > 0)
            snprintf(ret_run_id, UUID_TEXT_SIZE, "%s", run_id);
        sqlite3_reset(query);
    }
    return r;
}

int session_find_parent(const struct session *session, const int64_t *ancestors, size_t count,
                        char ret_run_id[static UUID_TEXT_SIZE])
{
    sqlite3_stmt *query = NULL;

    if (!count)
        return 0;
    int r = database_prepare(session->database,
                             "SELECT j.run_id, e.id FROM sessions own JOIN sessions e"
                             " ON e.ended_at IS NULL AND e.pid = ?1 AND e.boot_id = own.boot_id"
                             " AND e.host = own.host JOIN jobs j ON j.session = e.id"
                             " AND j.outcome = 'running' WHERE own.id = ?2 ORDER BY j.id DESC",
                             &query);
    if (r < 0)
        return r;
    sqlite3_bind_int64(query, 2, session->id);
    for (size_t i = 0; i < count && r == 0; i++) {
        sqlite3_bind_int64(query, 1, ancestors[i]);
        r = find_run_of(session, query, ret_run_id);
    }
    sqlite3_finalize(query);
    return r;
}

/* ---- folding ---- */

/* Without other sessions in the table, SQLite can drop all rows without visiting them. */
static int empty_recent(struct database *database, int64_t session)
{
    int64_t first = session, last = session;

    int r = database_query_int(database, "SELECT min(session) FROM recent", &first);
    if (r == 0)
        r = database_query_int(database, "SELECT max(session) FROM recent", &last);
    if (r < 0)
        return r;
    if (first == session && last == session)
        return database_exec(database, "DELETE FROM recent");
    return database_run_ints(database, "DELETE FROM recent WHERE session = ?1", session, 0);
}

int session_fold(struct database *database, const struct schema *schema, int64_t session,
                 int64_t up_to_tick)
{
    _cleanup_text_ struct text sql = {0};

    /* Rows that a keyframe only repeats are not moved: the last row of a process stays valid. The
     * rows are not sorted by process first, which would cost more than it saves. */
    text_append_string(&sql, "INSERT INTO history (proc, tick, ");
    columns_list(&schema->sample, &sql, column_name, "");
    text_append_string(&sql, ") SELECT key & 4294967295, key >> 32, ");
    columns_list(&schema->sample, &sql, column_name, "");
    text_append_string(&sql, " FROM recent WHERE session = ?1 AND same = 0");
    if (text_error(&sql) < 0)
        return database_fail_errno(database, -ENOMEM);
    int r = database_run_ints(database, text_string(&sql), session, up_to_tick);
    if (r == 0)
        r = empty_recent(database, session);
    if (r == 0)
        r = database_run_ints(database, "UPDATE sessions SET folded_tick = ?2 WHERE id = ?1",
                              session, up_to_tick);
    return r;
}

/* ---- recovery of dead sessions ---- */

#define LAST_TIME                                                                                  \
    "COALESCE((SELECT timestamp FROM snap WHERE session = ?1 AND is_minute = 0"                    \
    " ORDER BY tick DESC LIMIT 1),"                                                                \
    " (SELECT started_at FROM sessions WHERE id = ?1))"

/* Rolls up the last minute from its samples, because its sums were lost with the writer. */
static int roll_up_rest(struct database *database, const struct schema *schema, int64_t session)
{
    struct minute_roller roller;

    int r = minute_roller_init(&roller, database, schema, session);
    if (r == 0)
        r = sample_reader_replay(database, schema, session, &roller);
    if (r == 0)
        r = minute_roller_flush(&roller);
    minute_roller_done(&roller);
    return r;
}

int session_last_tick(struct database *database, int64_t session, int64_t *ret)
{
    sqlite3_stmt *query = NULL;
    int64_t last_tick = 0;

    int r = database_prepare(
        database, "SELECT max(tick) FROM snap WHERE session = ?1 AND is_minute = 0", &query);
    if (r == 0) {
        sqlite3_bind_int64(query, 1, session);
        r = MIN(database_step_int(database, query, &last_tick), 0);
    }
    sqlite3_finalize(query);
    if (r == 0)
        *ret = last_tick;
    return r;
}

int session_last_time(struct database *database, int64_t session, double *ret)
{
    sqlite3_stmt *query = NULL;

    int r = database_prepare(
        database, "SELECT timestamp FROM snap WHERE session = ?1 ORDER BY tick DESC LIMIT 1",
        &query);
    if (r == 0) {
        sqlite3_bind_int64(query, 1, session);
        r = database_step(database, query);
    }
    if (r >= 0)
        *ret = r > 0 ? row_read_real(query, 0) : REAL_UNKNOWN;
    sqlite3_finalize(query);
    return MIN(r, 0);
}

int session_settle(struct database *database, const struct schema *schema, int64_t session,
                   int64_t last_tick)
{
    int r = session_fold(database, schema, session, last_tick);
    if (r == 0)
        r = roll_up_rest(database, schema, session);
    if (r == 0)
        r = database_run_ints(database,
                              "UPDATE proc SET last_tick = ?2 WHERE session = ?1"
                              " AND last_tick = " TICK_OPEN_TEXT,
                              session, last_tick);
    return r;
}

/* Growing figures are not written with every snapshot (run-table.h): the rest is computed from the
 * samples and events. Samples are read from the run's first process on, because a session can be a
 * week long. */
#define SAMPLES_OF_RUN                                                                             \
    " FROM usage u WHERE u.session = ?1 AND u.is_minute = 0 AND u.tick >= (SELECT min(first_tick)" \
    " FROM proc WHERE run = jobs.id AND session = ?1) AND u.run = jobs.id)"
#define CPU_OF_SAMPLES   "(SELECT (max(u.cpu_seconds) - 1) / 1000.0" SAMPLES_OF_RUN
#define COUNT_OF_SAMPLES "(SELECT count(*)" SAMPLES_OF_RUN
/* Steps that a scheduler reports are not processes. */
#define COUNT_OF_EVENTS(types)                                                                     \
    "((SELECT count(*) FROM event v WHERE v.run = jobs.id AND v.is_step IS NULL"                   \
    " AND v.event_type IN (" types ")) + (SELECT COALESCE(sum(f.count), 0) FROM folded_events f"   \
    " WHERE f.run = jobs.id AND f.event_type IN (" types ")))"
/* Not less than the stored value; still unknown if nothing was found. */
#define AT_LEAST(column, found)                                                                    \
    " " column " = COALESCE(max(" column ", " found "), " column ", NULLIF(" found ", 0)),"

/* clang-format off */
static const char lose_jobs_sql[] =
    "UPDATE jobs SET outcome = 'unknown', cause = 'lost',"
    AT_LEAST("total_cpu_seconds", CPU_OF_SAMPLES)
    AT_LEAST("num_samples", COUNT_OF_SAMPLES)
    AT_LEAST("process_spawn_count", COUNT_OF_EVENTS("'spawn'"))
    AT_LEAST("exit_count", COUNT_OF_EVENTS("'exit', 'kill'"))
    " ended_at = max(COALESCE(started_at, 0), " LAST_TIME ")"
    " WHERE session = ?1 AND outcome = 'running'";
/* clang-format on */

int session_mark_jobs_lost(struct database *database, int64_t session)
{
    return database_run_ints(database, lose_jobs_sql, session, 0);
}

int session_clear_anomalies(struct database *database, int64_t session)
{
    return database_run_ints(database,
                             "UPDATE anomalies SET cleared_at = round(max(timestamp, " LAST_TIME
                             "), 3) WHERE session = ?1 AND cleared_at IS NULL",
                             session, 0);
}

static int end_dead(struct database *database, const struct schema *schema, int64_t session)
{
    int64_t last_tick;

    int r = session_last_tick(database, session, &last_tick);
    if (r == 0)
        r = session_settle(database, schema, session, last_tick);
    if (r == 0)
        r = session_mark_jobs_lost(database, session);
    if (r == 0)
        r = session_clear_anomalies(database, session);
    if (r == 0)
        r = database_run_ints(
            database, "UPDATE sessions SET ended_at = " LAST_TIME " WHERE id = ?1", session, 0);
    return r;
}

static int is_still_open(struct database *database, int64_t session)
{
    sqlite3_stmt *query = NULL;
    int64_t one;

    int r = database_prepare(database, "SELECT 1 FROM sessions WHERE id = ?1 AND ended_at IS NULL",
                             &query);
    if (r == 0) {
        sqlite3_bind_int64(query, 1, session);
        r = database_step_int(database, query, &one);
    }
    sqlite3_finalize(query);
    return r;
}

static int recover_one(struct session *session, const struct schema *schema, int64_t dead)
{
    struct database *database = session->database;

    int r = database_begin(database);
    if (r < 0)
        return r;
    r = is_still_open(database, dead); /* another writer may have ended it */
    if (r > 0)
        r = end_dead(database, schema, dead);
    return database_end(database, r);
}

int session_recover_others(struct session *session, const struct schema *schema)
{
    struct VEC(int64_t) dead = {0};
    sqlite3_stmt *list = NULL;

    int r = database_prepare(session->database, "SELECT id FROM sessions WHERE ended_at IS NULL",
                             &list);
    while (r == 0 && (r = database_step(session->database, list)) > 0) {
        int64_t id = sqlite3_column_int64(list, 0);
        bool is_dead = id != session->id && !session_is_alive(session->lock_fd, id);
        r = is_dead ? VEC_PUSH(&dead, id) : 0;
    }
    sqlite3_finalize(list);
    for (size_t i = 0; i < dead.count && r == 0; i++)
        r = recover_one(session, schema, dead.items[i]);
    VEC_DONE(&dead);
    return r == -ENOMEM ? database_fail_errno(session->database, r) : r;
}
