/* Runs and steps begin, are taken over by another session, and end: run-table.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "store/rows.h"
#include "store/run-table.h"
#include "store/session.h"

/* More simultaneous runs of a job are a mistake; they share the last name. */
#define SAME_JOB_MAX 1000

/* ---- names ---- */

/* Whether another run of this name and user is running. */
static int is_running(struct run_table *table, const char *job_id, const struct job *job)
{
    int64_t one;

    sqlite3_bind_text(table->is_running, 1, job_id, -1, SQLITE_STATIC);
    sqlite3_bind_text(table->is_running, 2, job->run_id, -1, SQLITE_STATIC);
    if (int_is_known(job->uid))
        sqlite3_bind_int64(table->is_running, 3, job->uid);
    else
        sqlite3_bind_null(table->is_running, 3);
    return database_step_int(table->database, table->is_running, &one);
}

static int find_free_name(struct run_table *table, const struct job *job,
                          char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES])
{
    snprintf(ret_job_id, JOB_ID_NUMBERED_MAX_BYTES, "%s", job->job_id);
    int r = is_running(table, ret_job_id, job);
    for (int number = 2; r > 0 && number <= SAME_JOB_MAX; number++) {
        snprintf(ret_job_id, JOB_ID_NUMBERED_MAX_BYTES, "%s-%d", job->job_id, number);
        r = is_running(table, ret_job_id, job);
    }
    return MIN(r, 0);
}

/* ---- a run that is stored already ---- */

/* The last sample, in case the other session still lives and has not written the figure yet. Less
 * one step, because the sample may have been rounded up. */
#define LAST_CPU                                                                                   \
    "(SELECT (u.cpu_seconds - 1) / 1000.0 FROM usage u WHERE u.session = jobs.session"             \
    " AND u.is_minute = 0 AND u.run = jobs.id AND u.tick = (SELECT max(s.tick) FROM snap s"        \
    " WHERE s.session = jobs.session AND s.is_minute = 0))"
#define CPU_SO_FAR "COALESCE(max(total_cpu_seconds, " LAST_CPU "), total_cpu_seconds, " LAST_CPU ")"

struct found_run {
    int64_t id;
    int64_t session;
    bool is_over;   /* with a final outcome, not "lost" */
    bool has_begun; /* false: this session has only sampled its processes */
    double cpu_seconds;
};

static int find_run(struct run_table *table, const char *run_id,
                    char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES], struct found_run *ret)
{
    sqlite3_stmt *query = NULL;

    int r = database_prepare(table->database,
                             "SELECT id, session, COALESCE(outcome IN ('success', 'failure') OR"
                             " (outcome = 'unknown' AND cause IS NOT 'lost'), 0), started_at IS NOT"
                             " NULL OR session IS NOT ?2, " CPU_SO_FAR ", job_id FROM jobs"
                             " WHERE run_id = ?1",
                             &query);
    if (r < 0)
        return r;
    sqlite3_bind_text(query, 1, run_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(query, 2, table->session);
    r = database_step(table->database, query);
    if (r > 0) {
        const char *job_id = NULL;
        *ret = (struct found_run){.id = sqlite3_column_int64(query, 0),
                                  .session = row_read_int(query, 1),
                                  .is_over = sqlite3_column_int(query, 2),
                                  .has_begun = sqlite3_column_int(query, 3),
                                  .cpu_seconds = row_read_real(query, 4)};
        r = row_find_text(query, 5, &job_id);
        if (r == 0 && job_id && (ret->has_begun || ret->is_over))
            snprintf(ret_job_id, JOB_ID_NUMBERED_MAX_BYTES, "%s", job_id);
    }
    sqlite3_finalize(query);
    return r == -ENOMEM ? database_fail_errno(table->database, r) : MIN(r, 0);
}

static bool is_replaced(const char *name)
{
    static const char *const names[] = {"job_id", "outcome", "ended_at", "cause", NULL};
    return names_have(names, name);
}

/* The run continues in this session. Stored values are kept; unknown ones are filled in. */
static int update_found(struct run_table *table, const struct found_run *found,
                        const struct job *job, bool is_taken)
{
    const struct columns *columns = &table->schema->job;
    _cleanup_text_ struct text sql = {0};
    sqlite3_stmt *update = NULL;

    text_printf(&sql,
                "UPDATE jobs SET outcome = 'running', ended_at = NULL, cause = NULL,"
                " session = %lld, figures_tick = %lld, job_id = ?%d",
                (long long)table->session, (long long)table->tick,
                columns_index(columns, "job_id") + 1);
    for (size_t i = 0; i < columns->count; i++) {
        const char *name = columns->items[i].name;
        if (is_taken && (strcmp(name, "exactness_cpu_seconds") == 0 ||
                         strcmp(name, "exactness_processes") == 0))
            text_printf(&sql, ", %s = 'lower_bound'", name);
        else if (!is_replaced(name))
            text_printf(&sql, ", \"%s\" = COALESCE(\"%s\", ?%zu)", name, name, i + 1);
    }
    text_printf(&sql, " WHERE id = %lld", (long long)found->id);
    int r = database_prepare_text(table->database, &sql, &update);
    if (r == 0 && columns_bind(columns, job, NULL, update, 1) < 0)
        r = database_fail_errno(table->database, -ENOMEM);
    if (r == 0)
        r = database_run(table->database, update);
    sqlite3_finalize(update);
    return r;
}

/* Writes a gap from the last snapshot of the previous session until now, once for all runs that are
 * taken over from that session. */
static int write_gap(struct run_table *table, int64_t former, double now)
{
    sqlite3_stmt *insert = NULL;
    double last;

    int r = session_last_time(table->database, former, &last);
    if (r < 0 || !(now > last))
        return r;
    r = database_prepare(table->database,
                         "INSERT INTO gaps (session, kind, timestamp, seconds, reason)"
                         " SELECT ?1, 'missed_ticks', round(?3, 3), round(?3 - ?4, 3),"
                         " 'the writer of the run ended, and another one continued' FROM sessions e"
                         " WHERE e.id = ?2 AND ?3 - ?4 > 1.5 * e.interval_seconds AND NOT EXISTS"
                         " (SELECT 1 FROM gaps WHERE session = ?1 AND kind = 'missed_ticks'"
                         " AND abs(timestamp - seconds - ?4) < 0.01)",
                         &insert);
    if (r < 0)
        return r;
    sqlite3_bind_int64(insert, 1, table->session);
    sqlite3_bind_int64(insert, 2, former);
    sqlite3_bind_double(insert, 3, now);
    sqlite3_bind_double(insert, 4, last);
    r = database_run(table->database, insert);
    sqlite3_finalize(insert);
    return r;
}

/* Kept even if the transaction fails: the values do not depend on it. */
static int remember_taken(struct run_table *table, const char *run_id, double cpu_before)
{
    uint64_t hash = hash_text(run_id);
    struct taken_run *taken = map_get(&table->taken, hash);

    if (!taken) {
        taken = malloc(sizeof(*taken));
        if (!taken || map_put(&table->taken, hash, taken) < 0) {
            free(taken);
            return database_fail_errno(table->database, -ENOMEM);
        }
    }
    *taken = (struct taken_run){.cpu_before = cpu_before, .cpu_more = REAL_UNKNOWN};
    return 0;
}

static int take_over(struct run_table *table, const struct found_run *found, const struct job *job,
                     double now)
{
    int r = remember_taken(table, job->run_id, found->cpu_seconds);
    if (r == 0)
        r = database_run_ints(table->database,
                              "INSERT OR REPLACE INTO turns SELECT id, session, figures_tick"
                              " FROM jobs WHERE id = ?1",
                              found->id, 0);
    return r < 0 ? r : write_gap(table, found->session, now);
}

static int continue_run(struct run_table *table, const struct job *begun, double now,
                        char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES], int64_t *ret_taken)
{
    struct found_run found = {0};
    struct job job = *begun;

    int r = find_run(table, begun->run_id, ret_job_id, &found);
    bool is_taken = int_is_known(found.session) && found.session != table->session;
    if (r == 0 && found.is_over && is_taken)
        return RUN_IS_OVER;
    if (r < 0 || found.is_over)
        return r;
    job.job_id = ret_job_id;
    if (is_taken)
        r = take_over(table, &found, &job, now);
    if (r == 0)
        r = update_found(table, &found, &job, is_taken);
    if (r < 0 || !is_taken)
        return r;
    *ret_taken = found.id;
    return RUN_TAKEN;
}

/* ---- begin and end ---- */

int run_table_begin_job(struct run_table *table, const struct job *job, double now,
                        char ret_job_id[static JOB_ID_NUMBERED_MAX_BYTES], int64_t *ret_taken)
{
    struct job begun = *job;

    int r = run_table_write_and_drop(table, job->run_id);
    if (r == 0)
        r = find_free_name(table, job, ret_job_id);
    if (r < 0)
        return r;
    begun.job_id = ret_job_id;
    begun.outcome = OUTCOME_RUNNING;
    r = run_table_insert_job(table, &begun);
    if (r != 0)
        return MIN(r, 0);
    return continue_run(table, &begun, now, ret_job_id, ret_taken);
}

/* Makes a figure unknown if it is less than the stored one, which is then kept. */
static void drop_if_less(const struct column *column, const struct job *stored, struct job *final)
{
    const void *before = (const char *)stored + column->offset;
    void *value = (char *) final + column->offset;

    if (column->field->type == FIELD_REAL && *(double *)value < *(const double *)before)
        *(double *)value = REAL_UNKNOWN;
    if (column->field->type == FIELD_INT && *(int64_t *)value < *(const int64_t *)before)
        *(int64_t *)value = INT_UNKNOWN;
}

/* The account of a session that took the run over began too late. Its figures do not lower stored
 * ones and are lower bounds, unless they are exact, as those of the parent of all processes. */
static int reconcile(struct run_table *table, struct job *final)
{
    struct run_exactness *exactness = &final->profile.exactness;
    struct run_row *run;

    if (!map_get(&table->taken, hash_text(final->run_id)))
        return 0;
    int r = run_table_get(table, final->run_id, final->job_id, &run);
    if (r < 0)
        return r;
    for (size_t i = 0; i < table->figures.count; i++) {
        const struct column *column = &table->figures.items[i];
        if (job_profile_exactness(&final->profile, column->field) != EXACT)
            drop_if_less(column, &run->job, final);
    }
    if (exactness->cpu_seconds != EXACT)
        exactness->cpu_seconds = LOWER_BOUND;
    if (exactness->processes != EXACT)
        exactness->processes = LOWER_BOUND;
    return 0;
}

/* Steps without a reported end end with their run. */
static int end_sheets(struct run_table *table, const char *run_id)
{
    if (!table->end_sheets) {
        int r = database_prepare(table->database,
                                 "UPDATE sheets SET outcome = j.outcome, ended_at = j.ended_at"
                                 " FROM jobs j WHERE j.run_id = ?1 AND sheets.run_id = ?1"
                                 " AND sheets.outcome = 'running'",
                                 &table->end_sheets);
        if (r < 0)
            return r;
    }
    sqlite3_bind_text(table->end_sheets, 1, run_id, -1, SQLITE_STATIC);
    return database_run(table->database, table->end_sheets);
}

int run_table_finish_job(struct run_table *table, const struct job *job)
{
    const struct columns *columns = &table->final;
    struct job final = *job;

    int r = reconcile(table, &final);
    if (r == 0)
        r = run_table_write_and_drop(table, job->run_id);
    if (r < 0)
        return r;
    r = columns_bind(columns, &final, NULL, table->finish, 1);
    if (r < 0)
        return database_fail_errno(table->database, r);
    sqlite3_bind_text(table->finish, (int)columns->count + 1, job->run_id, -1, SQLITE_STATIC);
    r = database_run(table->database, table->finish);
    if (r == 0 && sqlite3_changes(table->database->handle) == 0)
        r = run_table_insert_job(table, job);
    return r < 0 ? r : end_sheets(table, job->run_id);
}

int run_table_put_sheet(struct run_table *table, const struct sheet *sheet)
{
    int r = run_table_write_and_drop(table, sheet->run_id);

    return r < 0 ? r : run_table_write_sheet(table, sheet);
}
