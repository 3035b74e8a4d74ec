#include "store/run-table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/macros.h"
#include "store/text-pool.h"

/* ---- unknown and known numbers ---- */

static void raise_real(double *value, double candidate, bool *is_changed)
{
    if (!real_is_known(candidate) || (real_is_known(*value) && candidate <= *value))
        return;
    *value = candidate;
    *is_changed = true;
}

static void raise_int(int64_t *value, int64_t candidate, bool *is_changed)
{
    if (candidate <= *value) /* INT_UNKNOWN is the smallest value */
        return;
    *value = candidate;
    *is_changed = true;
}

static void add_int(int64_t *value, int64_t more, bool *is_changed)
{
    if (!int_is_known(more) || (more == 0 && int_is_known(*value)))
        return;
    /* Saturates. */
    if (__builtin_add_overflow(int_is_known(*value) ? *value : 0, more, value))
        *value = INT64_MAX;
    *is_changed = true;
}

static double add_real(double value, double more)
{
    return real_is_known(value) ? value + more : more;
}

/* ---- statements ---- */

/* The id, name and start of a run do not change: the name in the database may have a number, and
 * SQLite need not update the indexes of unchanged columns. */
static void leave_out_names(const struct columns *from, struct columns *into)
{
    for (size_t i = 0; i < from->count; i++) {
        const char *name = from->items[i].name;
        if (strcmp(name, "run_id") != 0 && strcmp(name, "job_id") != 0 &&
            strcmp(name, "started_at") != 0)
            into->items[into->count++] = from->items[i];
    }
}

static void select_live(const struct columns *from, struct columns *into)
{
    for (size_t i = 0; i < from->count; i++)
        if (from->items[i].field->is_live)
            into->items[into->count++] = from->items[i];
}

/* A stored cause that begins with the new one and is longer ("exit status 2: cc1 …" and "exit
 * status 2") is kept, with its chain: its writer saw more of the end of the run. */
static void append_longer_cause(const char *name, int cause, int at, struct text *sql)
{
    text_printf(sql,
                "CASE WHEN substr(cause, 1, length(?%d) + 2)"
                " IN (?%d || ': ', ?%d || ', ', ?%d || '; ', ?%d || ' (')"
                " THEN \"%s\" ELSE COALESCE(?%d, NULLIF(\"%s\", 'lost')) END",
                cause, cause, cause, cause, cause, name, at, name);
}

/* NULL leaves the stored value. An end that is reported after all replaces the cause "lost". */
static void list_final(const struct columns *columns, struct text *sql)
{
    int cause = columns_index(columns, "cause") + 1;

    for (size_t i = 0; i < columns->count; i++) {
        const char *name = columns->items[i].name;
        text_printf(sql, "%s\"%s\" = ", i ? ", " : "", name);
        if (strcmp(name, "cause") == 0 || strcmp(name, "chain") == 0)
            append_longer_cause(name, cause, (int)i + 1, sql);
        else
            text_printf(sql, "COALESCE(?%zu, \"%s\")", i + 1, name);
    }
}

/* Figures from samples never decrease: a smaller value is an older one of another writer. */
static void list_figures(const struct columns *columns, struct text *sql)
{
    for (size_t i = 0; i < columns->count; i++) {
        const char *name = columns->items[i].name;
        text_printf(sql, "%s\"%s\" = COALESCE(max(\"%s\", ?%zu), \"%s\", ?%zu)", i ? ", " : "",
                    name, name, i + 1, name, i + 1);
    }
}

static void list_parameters(size_t count, struct text *sql)
{
    for (size_t i = 0; i < count; i++)
        text_printf(sql, "%s?%zu", i ? ", " : "", i + 1);
}

static int prepare_jobs(struct run_table *table, struct text *sql)
{
    const struct columns *job = &table->schema->job;

    text_append_string(sql, "SELECT id, ended_at IS NOT NULL, ");
    columns_list(&table->figures, sql, column_name, "");
    text_append_string(sql, " FROM jobs WHERE run_id = ?1");
    int r = database_prepare_text(table->database, sql, &table->find);
    if (r < 0)
        return r;

    text_append_string(sql, "INSERT INTO jobs (");
    columns_list(job, sql, column_name, "");
    text_append_string(sql, ", session) VALUES (");
    list_parameters(job->count + 1, sql);
    text_append_string(sql, ") ON CONFLICT DO NOTHING");
    r = database_prepare_text(table->database, sql, &table->insert);
    if (r < 0)
        return r;

    text_append_string(sql, "UPDATE jobs SET ");
    list_figures(&table->figures, sql);
    text_printf(sql,
                ", figures_tick = CASE session WHEN %lld THEN ?%zu ELSE figures_tick END"
                " WHERE id = ?%zu AND ended_at IS NULL",
                (long long)table->session, table->figures.count + 1, table->figures.count + 2);
    r = database_prepare_text(table->database, sql, &table->update_figures);
    if (r < 0)
        return r;

    text_append_string(sql, "UPDATE jobs SET ");
    list_final(&table->final, sql);
    text_printf(sql, " WHERE run_id = ?%zu", table->final.count + 1);
    return database_prepare_text(table->database, sql, &table->finish);
}

/* Prepared at the first step: most runs have none. */
static int prepare_sheets(struct run_table *table)
{
    const struct columns *sheet = &table->schema->sheet;
    _cleanup_text_ struct text text = {0};
    struct text *sql = &text;

    if (table->update_sheet)
        return 0;
    sqlite3_finalize(TAKE_PTR(table->put_sheet)); /* of an attempt that failed half-way */
    sqlite3_finalize(TAKE_PTR(table->find_sheet));

    text_append_string(sql, "INSERT INTO sheets (");
    columns_list(sheet, sql, column_name, "");
    text_append_string(sql, ") VALUES (");
    list_parameters(sheet->count, sql);
    text_append_string(sql, ") ON CONFLICT DO UPDATE SET ");
    list_final(sheet, sql);
    int r = database_prepare_text(table->database, sql, &table->put_sheet);
    if (r < 0)
        return r;

    text_append_string(sql, "SELECT ");
    columns_list(&table->sheet_figures, sql, column_name, "");
    text_append_string(sql, ", outcome IS NOT NULL AND outcome <> 'running' FROM sheets"
                            " WHERE run_id = ?1 AND sheet_num = ?2");
    r = database_prepare_text(table->database, sql, &table->find_sheet);
    if (r < 0)
        return r;

    text_append_string(sql, "UPDATE sheets SET ");
    list_figures(&table->sheet_figures, sql);
    text_printf(sql, " WHERE run_id = ?%zu AND sheet_num = ?%zu", table->sheet_figures.count + 1,
                table->sheet_figures.count + 2);
    return database_prepare_text(table->database, sql, &table->update_sheet);
}

int run_table_init(struct run_table *table, struct database *database, const struct schema *schema,
                   int64_t session)
{
    _cleanup_text_ struct text sql = {0};

    *table = (struct run_table){.database = database, .schema = schema, .session = session};
    leave_out_names(&schema->job, &table->final);
    select_live(&schema->job, &table->figures);
    select_live(&schema->sheet, &table->sheet_figures);
    int r = prepare_jobs(table, &sql);
    if (r == 0)
        r = database_prepare(database,
                             "SELECT 1 FROM jobs WHERE job_id = ?1 AND outcome = 'running'"
                             " AND run_id <> ?2 AND uid IS ?3",
                             &table->is_running);
    return r;
}

static void free_run(struct run_row *run)
{
    VEC_DONE(&run->sheets);
    free(run);
}

void run_table_commit(struct run_table *table)
{
    size_t position = 0;
    struct run_row *run;

    table->stored_tick = table->tick;
    while ((run = map_next(&table->by_hash, &position))) {
        /* Ended runs are dropped, so that they do not accumulate in a daemon. */
        if (run->must_reload || (run->has_ended && !run->is_here)) {
            map_remove(&table->by_hash, hash_text(run->run_id));
            free_run(run);
            position--; /* map_remove() may have moved another entry here */
            continue;
        }
        run->is_stored = true;
        run->stored = run->job.profile;
        run->stored_sheets = run->sheets.count;
        for (size_t i = 0; i < run->sheets.count; i++)
            run->sheets.items[i].stored = run->sheets.items[i].sheet;
    }
}

static void restore_run(struct run_row *run)
{
    run->job.profile = run->stored;
    run->is_changed = true;
    run->must_reload = false;
    run->sheets.count = run->stored_sheets;
    for (size_t i = 0; i < run->sheets.count; i++) {
        run->sheets.items[i].sheet = run->sheets.items[i].stored;
        run->sheets.items[i].is_changed = true;
    }
}

void run_table_reset(struct run_table *table)
{
    size_t position = 0;
    struct run_row *run;

    table->tick = table->stored_tick;
    while ((run = map_next(&table->by_hash, &position)))
        if (run->is_stored) {
            restore_run(run);
        } else {
            map_remove(&table->by_hash, hash_text(run->run_id));
            free_run(run);
            position--; /* map_remove() may have moved another entry here */
        }
}

void run_table_done(struct run_table *table)
{
    sqlite3_stmt *statements[] = {table->find,       table->insert,       table->update_figures,
                                  table->finish,     table->is_running,   table->put_sheet,
                                  table->find_sheet, table->update_sheet, table->end_sheets};

    size_t position = 0;
    for (struct run_row *run; (run = map_next(&table->by_hash, &position));)
        free_run(run);
    map_done(&table->by_hash);
    map_done_free(&table->taken);
    for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
        sqlite3_finalize(statements[i]);
    *table = (struct run_table){0};
}

/* ---- rows ---- */

int run_table_insert_job(struct run_table *table, const struct job *job)
{
    int r = columns_bind(&table->schema->job, job, NULL, table->insert, 1);
    if (r < 0)
        return database_fail_errno(table->database, r);
    sqlite3_bind_int64(table->insert, (int)table->schema->job.count + 1, table->session);
    r = database_run(table->database, table->insert);
    return r < 0 ? r : sqlite3_changes(table->database->handle) > 0;
}

/* Returns 1, or 0 if there is no such run. */
static int load(struct run_table *table, struct run_row *run)
{
    sqlite3_stmt *find = table->find;

    sqlite3_bind_text(find, 1, run->run_id, -1, SQLITE_STATIC);
    int r = database_step(table->database, find);
    if (r <= 0)
        return r;
    run->id = sqlite3_column_int64(find, 0);
    run->has_ended = sqlite3_column_int(find, 1);
    for (size_t i = 0; i < table->figures.count; i++)
        column_read(&table->figures.items[i], find, (int)i + 2, NULL, &run->job);
    sqlite3_reset(find);
    return 1;
}

/* Inserts a run that no caller has begun yet, with its ids only. */
static int load_or_make(struct run_table *table, struct run_row *run, const char *job_id)
{
    int r = load(table, run);
    if (r != 0)
        return MIN(r, 0);

    struct job job;
    record_init(&job_record, &job);
    job.run_id = run->run_id;
    job.job_id = job_id;
    job.outcome = OUTCOME_RUNNING;
    r = run_table_insert_job(table, &job);
    run->id = sqlite3_last_insert_rowid(table->database->handle);
    return MIN(r, 0);
}

int run_table_get(struct run_table *table, const char *run_id, const char *job_id,
                  struct run_row **ret)
{
    uint64_t hash = hash_text(run_id);
    struct run_row *run = map_get(&table->by_hash, hash);

    if (run) {
        *ret = run;
        return 0;
    }
    if (strlen(run_id) >= UUID_TEXT_SIZE)
        return database_fail_with(table->database, -EINVAL, "'%.40s…' is no run id", run_id);
    run = calloc(1, sizeof(*run));
    if (!run)
        return database_fail_errno(table->database, -ENOMEM);
    record_init(&job_record, &run->job);
    strcpy(run->run_id, run_id);
    run->taken = map_get(&table->taken, hash);
    int r = load_or_make(table, run, job_id);
    if (r == 0 && map_put(&table->by_hash, hash, run) < 0)
        r = database_fail_errno(table->database, -ENOMEM);
    if (r < 0) {
        free(run);
        return r;
    }
    *ret = run;
    return 0;
}

/* ---- figures as samples come in ---- */

void run_table_begin_snapshot(struct run_table *table, int64_t tick)
{
    size_t position = 0;
    struct run_row *run;

    table->tick = tick;
    while ((run = map_next(&table->by_hash, &position))) {
        run->is_here = false;
        run->rss_now = 0;
        run->zombies_now = 0;
        for (size_t i = 0; i < run->sheets.count; i++)
            run->sheets.items[i].cpu_now = 0;
    }
}

int run_table_write_sheet(struct run_table *table, const struct sheet *sheet)
{
    int r = prepare_sheets(table);
    if (r < 0)
        return r;
    r = columns_bind(&table->schema->sheet, sheet, NULL, table->put_sheet, 1);
    if (r < 0)
        return database_fail_errno(table->database, r);
    return database_run(table->database, table->put_sheet);
}

static int load_sheet(struct run_table *table, const struct run_row *run, struct sheet_row *row)
{
    struct sheet *sheet = &row->sheet;

    int r = prepare_sheets(table);
    if (r < 0)
        return r;
    sqlite3_stmt *find = table->find_sheet;
    sqlite3_bind_text(find, 1, run->run_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(find, 2, sheet->sheet_num);
    r = database_step(table->database, find);
    if (r < 0)
        return r;
    if (r > 0) {
        for (size_t i = 0; i < table->sheet_figures.count; i++)
            column_read(&table->sheet_figures.items[i], find, (int)i, NULL, sheet);
        row->has_ended = sqlite3_column_int(find, (int)table->sheet_figures.count);
        sqlite3_reset(find);
        return 0;
    }
    sheet->run_id = run->run_id;
    return run_table_write_sheet(table, sheet);
}

static int get_sheet(struct run_table *table, struct run_row *run, int64_t number,
                     struct sheet_row **ret)
{
    for (size_t i = 0; i < run->sheets.count; i++)
        if (run->sheets.items[i].sheet.sheet_num == number) {
            *ret = &run->sheets.items[i];
            return 0;
        }

    struct sheet_row row = {0};
    record_init(&sheet_record, &row.sheet);
    row.sheet.sheet_num = number;
    int r = load_sheet(table, run, &row);
    if (r == 0 && VEC_PUSH(&run->sheets, row) < 0)
        r = database_fail_errno(table->database, -ENOMEM);
    if (r == 0)
        *ret = &run->sheets.items[run->sheets.count - 1];
    return r;
}

static int add_to_sheet(struct run_table *table, struct run_row *run,
                        const struct process_metric *process, double peak, double cpu_seconds)
{
    struct sheet_row *row;

    int r = get_sheet(table, run, process->sheet_num, &row);
    if (r != 0 || row->has_ended)
        return r;
    raise_real(&row->sheet.peak_rss_mb, peak, &row->is_changed);
    if (real_is_known(process->cpu_percent)) {
        row->cpu_now += process->cpu_percent;
        raise_real(&row->sheet.max_cpu_pct, row->cpu_now, &row->is_changed);
    }
    if (cpu_seconds > 0) {
        row->sheet.cpu_seconds = add_real(row->sheet.cpu_seconds, cpu_seconds);
        row->has_grown = true;
    }
    return 0;
}

int run_table_add_process(struct run_table *table, struct run_row *run,
                          const struct process_metric *process, const struct process_delta *delta)
{
    struct job_profile *profile = &run->job.profile;
    double peak = fmax(process->rss_mb, process->peak_rss_mb); /* ignores NaN */

    run->is_here = true;
    if (run->has_ended)
        return 0;
    raise_real(&profile->peak_rss_mb, peak, &run->is_changed);
    if (real_is_known(process->rss_mb))
        run->rss_now += process->rss_mb;
    run->zombies_now += delta->is_left_zombie;
    if (delta->is_new)
        add_int(&profile->unique_pid_count, 1, &run->is_changed);
    add_int(&profile->read_bytes, delta->read_bytes, &run->has_grown);
    add_int(&profile->write_bytes, delta->write_bytes, &run->has_grown);
    if (int_is_known(profile->read_bytes)) /* I/O after the last sample of a process is missing */
        profile->exactness.read_bytes = profile->exactness.write_bytes = LOWER_BOUND;
    if (!int_is_known(process->sheet_num))
        return 0;
    return add_to_sheet(table, run, process, peak, delta->cpu_seconds);
}

/* Adds the CPU time that earlier sessions stored to the account of this one. */
static double add_earlier_cpu(struct taken_run *taken, double cpu_seconds)
{
    if (!taken || !real_is_known(cpu_seconds))
        return cpu_seconds;
    if (!real_is_known(taken->cpu_more))
        taken->cpu_more =
            real_is_known(taken->cpu_before) ? fmax(taken->cpu_before - cpu_seconds, 0) : 0;
    return cpu_seconds + taken->cpu_more;
}

void run_table_add_usage(struct run_row *run, const struct job_usage *usage)
{
    struct job_profile *profile = &run->job.profile;

    run->is_here = true;
    if (run->has_ended)
        return;
    raise_real(&profile->cpu_seconds, add_earlier_cpu(run->taken, usage->cpu_seconds),
               &run->has_grown);
    raise_real(&profile->peak_total_mb, usage->rss_mb, &run->is_changed);
    raise_real(&profile->peak_unique_min_mb, usage->unique_min_mb, &run->is_changed);
    raise_real(&profile->peak_unique_mb, usage->unique_mb, &run->is_changed);
    raise_real(&profile->max_cpu_pct, usage->cpu_percent, &run->is_changed);
    raise_int(&profile->peak_processes, usage->processes, &run->is_changed);
}

void run_table_add_event(struct run_row *run, const struct process_event *event)
{
    unsigned counted = run->has_ended ? 0 : job_profile_add_event(&run->job.profile, event);

    run->has_grown |= (counted & COUNTED_PROCESS) != 0;
    run->is_changed |= (counted & COUNTED_PROBLEM) != 0;
}

static int update_sheet(struct run_table *table, const struct run_row *run, struct sheet_row *row)
{
    int at = (int)table->sheet_figures.count;

    int r = columns_bind(&table->sheet_figures, &row->sheet, NULL, table->update_sheet, 1);
    sqlite3_bind_text(table->update_sheet, at + 1, run->run_id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(table->update_sheet, at + 2, row->sheet.sheet_num);
    row->is_changed = row->has_grown = false;
    return r < 0 ? r : database_run(table->database, table->update_sheet);
}

static int update_run(struct run_table *table, struct run_row *run)
{
    int r = columns_bind(&table->figures, &run->job, NULL, table->update_figures, 1);
    sqlite3_bind_int64(table->update_figures, (int)table->figures.count + 1, table->tick);
    sqlite3_bind_int64(table->update_figures, (int)table->figures.count + 2, run->id);
    run->is_changed = run->has_grown = false;
    return r < 0 ? r : database_run(table->database, table->update_figures);
}

static bool is_due(const struct run_row *run, bool with_growth)
{
    bool has_changed = run->is_changed, has_grown = run->has_grown;

    for (size_t i = 0; i < run->sheets.count; i++) {
        has_changed = has_changed || run->sheets.items[i].is_changed;
        has_grown = has_grown || run->sheets.items[i].has_grown;
    }
    return has_changed || (with_growth && has_grown);
}

/* Writes a run if something has changed, or has grown and growth is due. Always writes all figures,
 * so that figures_tick is valid for all of them. */
static int write_run(struct run_table *table, struct run_row *run, bool with_growth)
{
    int r = 0;

    if (!is_due(run, with_growth))
        return 0;
    for (size_t i = 0; i < run->sheets.count && r == 0; i++) {
        struct sheet_row *row = &run->sheets.items[i];
        if (row->is_changed || row->has_grown)
            r = update_sheet(table, run, row);
    }
    if (r == 0)
        r = update_run(table, run);
    run->written_count = table->snapshot_count;
    return r;
}

static int write_runs(struct run_table *table, uint64_t growth_interval)
{
    size_t position = 0;
    struct run_row *run;
    int r = 0;

    while (r == 0 && (run = map_next(&table->by_hash, &position)))
        r = write_run(table, run,
                      run->taken || table->snapshot_count - run->written_count >= growth_interval);
    return r;
}

int run_table_write_and_drop(struct run_table *table, const char *run_id)
{
    struct run_row *run = map_get(&table->by_hash, hash_text(run_id));

    if (!run)
        return 0;
    run->must_reload = true;
    return write_run(table, run, true);
}

int run_table_write_changes(struct run_table *table)
{
    return write_runs(table, 0);
}

int run_table_end_snapshot(struct run_table *table)
{
    size_t position = 0;
    struct run_row *run;

    while ((run = map_next(&table->by_hash, &position))) {
        struct job_profile *profile = &run->job.profile;
        if (!run->is_here || run->has_ended)
            continue;
        raise_real(&profile->peak_total_mb, run->rss_now, &run->is_changed);
        raise_int(&profile->zombie_count, run->zombies_now, &run->is_changed);
        add_int(&profile->num_samples, 1, &run->has_grown);
    }
    table->snapshot_count++;
    return write_runs(table, table->growth_interval);
}
