#include "store/orphans.h"

#include <errno.h>

#include "store/rows.h"
#include "store/session.h"

/* The queries that run once for each run. */
struct parts {
    struct database *database;
    const struct schema *schema;
    sqlite3_stmt *processes;
    sqlite3_stmt *sheets;
};

/* ---- runs ---- */

struct candidate {
    int64_t id;
    int64_t session;
    struct orphaned_run run;
};

static int read_candidate(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct parts *parts = context;
    struct candidate *candidate = item;
    struct job *job = &candidate->run.job;

    candidate->id = sqlite3_column_int64(row, 0);
    candidate->session = sqlite3_column_int64(row, 1);
    record_init(&job_record, job);
    int r = row_read_columns(&parts->schema->job, row, 2, arena, job);
    job->profile.job_id = job->job_id;
    return r;
}

/* The limit leaves out running runs, which are few and may be dropped again by is_orphaned(). */
static int list_candidates(struct parts *parts, const char *host, const char *boot_id,
                           struct arena *arena, struct any_list *ret)
{
    _cleanup_text_ struct text sql = {0};
    sqlite3_stmt *rows = NULL;

    text_append_string(&sql, "SELECT j.id, j.session, ");
    columns_list(&parts->schema->job, &sql, column_name, "j.");
    text_append_string(&sql, " FROM jobs j JOIN sessions e ON e.id = j.session"
                             " WHERE e.host = ?1 AND e.boot_id = ?2 AND (j.outcome = 'running'"
                             " OR (j.outcome = 'unknown' AND j.cause = 'lost'))"
                             " ORDER BY j.started_at DESC, j.id DESC LIMIT ?3"
                             " + (SELECT count(*) FROM jobs WHERE outcome = 'running')");
    int r = database_prepare_text(parts->database, &sql, &rows);
    if (r < 0)
        return r;
    sqlite3_bind_text(rows, 1, host, -1, SQLITE_STATIC);
    sqlite3_bind_text(rows, 2, boot_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(rows, 3, ORPHANED_RUNS_MAX);
    r = rows_collect(parts->database, rows, sizeof(struct candidate), read_candidate, parts, arena,
                     ret);
    sqlite3_finalize(rows);
    return r;
}

/* ---- processes and steps of a run ---- */

/* The processes in the last snapshot of the session that saw the run last. A session that took the
 * run over may have died before it saw the run. The plus makes SQLite use the index on last_tick,
 * see inherited-processes.c. */
static const char processes_sql[] =
    "SELECT p.pid, p.start_ticks, p.sheet_num FROM (SELECT q.session AS session,"
    " (SELECT s.timestamp FROM snap s WHERE s.session = q.session ORDER BY s.tick DESC LIMIT 1)"
    " AS seen FROM proc q WHERE q.run = ?1 GROUP BY q.session ORDER BY seen DESC LIMIT 1) l"
    " JOIN proc p ON p.session = l.session AND +p.run = ?1 AND p.last_tick >="
    " (SELECT COALESCE(s.to_tick, s.tick) FROM snap s WHERE s.session = l.session"
    "  ORDER BY s.tick DESC LIMIT 1) ORDER BY p.id";

static int prepare_parts(struct parts *parts)
{
    _cleanup_text_ struct text sql = {0};

    int r = database_prepare(parts->database, processes_sql, &parts->processes);
    if (r < 0)
        return r;
    text_append_string(&sql, "SELECT ");
    columns_list(&parts->schema->sheet, &sql, column_name, "");
    text_append_string(&sql, " FROM sheets WHERE run_id = ?1 AND ended_at IS NULL"
                             " AND COALESCE(outcome, 'running') = 'running' ORDER BY sheet_num");
    return database_prepare_text(parts->database, &sql, &parts->sheets);
}

static int read_process(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    (void)context, (void)arena;
    *(struct last_seen *)item =
        (struct last_seen){.pid = row_read_int(row, 0),
                           .start_ticks = (uint64_t)sqlite3_column_int64(row, 1),
                           .sheet_num = row_read_int(row, 2)};
    return 0;
}

static int read_sheet(void *context, sqlite3_stmt *row, struct arena *arena, void *item)
{
    const struct parts *parts = context;

    record_init(&sheet_record, item);
    return row_read_columns(&parts->schema->sheet, row, 0, arena, item);
}

static int read_parts(struct parts *parts, int64_t id, struct arena *arena,
                      struct orphaned_run *run)
{
    struct any_list list = {0};

    sqlite3_bind_int64(parts->processes, 1, id);
    int r = rows_collect(parts->database, parts->processes, sizeof(struct last_seen), read_process,
                         NULL, arena, &list);
    if (r < 0)
        return r;
    run->processes = (struct last_seen_list){.items = list.items, .count = list.count};
    sqlite3_bind_text(parts->sheets, 1, run->job.run_id, -1, SQLITE_STATIC);
    r = rows_collect(parts->database, parts->sheets, sizeof(struct sheet), read_sheet, parts, arena,
                     &list);
    if (r == 0)
        run->sheets = (struct sheet_list){.items = list.items, .count = list.count};
    return r;
}

/* ---- the list ---- */

/* Whether the writer of the run has died, even if no other writer has recorded that. */
static bool is_orphaned(struct candidate *candidate, int lock_fd)
{
    struct job *job = &candidate->run.job;

    if (job->outcome != OUTCOME_RUNNING)
        return true;
    if (session_is_alive(lock_fd, candidate->session))
        return false;
    job->outcome = OUTCOME_UNKNOWN;
    job->cause = CAUSE_LOST;
    return true;
}

static int make_list(struct parts *parts, int lock_fd, const struct any_list *candidates,
                     struct arena *arena, struct orphaned_run_list *ret)
{
    struct candidate *items = candidates->items;
    struct orphaned_run_list list = {
        .items = arena_alloc(arena, (candidates->count + 1) * sizeof(*list.items))};
    int r = list.items ? 0 : database_fail_errno(parts->database, -ENOMEM);

    for (size_t i = 0; i < candidates->count && list.count < ORPHANED_RUNS_MAX && r == 0; i++) {
        if (!is_orphaned(&items[i], lock_fd))
            continue;
        r = read_parts(parts, items[i].id, arena, &items[i].run);
        list.items[list.count++] = items[i].run;
    }
    if (r == 0)
        *ret = list;
    return r;
}

int orphans_query(struct database *database, const struct schema *schema, int lock_fd,
                  const char *host, const char *boot_id, struct arena *arena,
                  struct orphaned_run_list *ret)
{
    struct parts parts = {.database = database, .schema = schema};
    struct any_list candidates = {0};

    int r = list_candidates(&parts, host, boot_id, arena, &candidates);
    if (r == 0)
        r = prepare_parts(&parts);
    if (r == 0)
        r = make_list(&parts, lock_fd, &candidates, arena, ret);
    sqlite3_finalize(parts.processes);
    sqlite3_finalize(parts.sheets);
    return r;
}
