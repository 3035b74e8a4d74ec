#include "store/sample-writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "store/session.h"
#include "store/store.h"

/* One row of `proc`: a period in which the rarely changing fields of a process stay the same. */
struct proc_row {
    int64_t proc; /* its id; 0: the row has ended, only `counted` is valid */
    int64_t pid;
    uint64_t start_ticks;
    int64_t run; /* row of `jobs`; INT_UNKNOWN: none */
    int64_t seen_tick;
    struct counted_process counted;
    struct counted_process stored_counted; /* as of the last committed transaction */
    char *command;                         /* NULL: unknown */
    struct process_metric last;            /* see numbers_of() */
    int64_t codes[]; /* of the columns of `proc`, then of the last written sample */
};

static void proc_row_free(struct proc_row *row)
{
    free(row->command);
    free(row);
}

static int64_t *proc_row_sample(const struct sample_writer *writer, struct proc_row *row)
{
    return row->codes + writer->schema->life.count;
}

/* ---- statements ---- */

#define SNAP_OWN_COUNT   5
#define PROC_OWN_COUNT   6
#define SAMPLE_OWN_COUNT 3

static int prepare_statements(struct sample_writer *writer)
{
    const struct schema *schema = writer->schema;

    int r = schema_prepare_insert(writer->database, "INSERT OR IGNORE", "snap",
                                  "id, session, tick, child_count, age_clock", SNAP_OWN_COUNT,
                                  &schema->snapshot, &writer->insert_snap);
    if (r == 0)
        r = schema_prepare_insert(writer->database, "INSERT", "proc",
                                  "session, minute_tick, first_tick, last_tick, run,"
                                  " start_ticks",
                                  PROC_OWN_COUNT, &schema->life, &writer->insert_proc);
    if (r == 0)
        r = schema_prepare_insert(writer->database, "INSERT", "recent", "session, key, same",
                                  SAMPLE_OWN_COUNT, &schema->sample, &writer->insert_sample);
    if (r == 0)
        r = database_prepare(writer->database, "UPDATE proc SET last_tick = ?1 WHERE id = ?2",
                             &writer->end_proc);
    return r;
}

int sample_writer_init(struct sample_writer *writer, struct database *database,
                       const struct schema *schema, struct text_pool *texts, struct run_table *runs,
                       int64_t session)
{
    *writer = (struct sample_writer){
        .database = database,
        .schema = schema,
        .texts = texts,
        .runs = runs,
        .session = session,
        .counter_at = {[COUNTER_CPU] = columns_index(&schema->sample, "cpu_seconds"),
                       [COUNTER_READ] = columns_index(&schema->sample, "read_bytes"),
                       [COUNTER_WRITE] = columns_index(&schema->sample, "write_bytes")},
        .age_at = columns_index(&schema->sample, "age_seconds"),
        .state_at = columns_index(&schema->sample, "state"),
    };
    int r = minute_roller_init(&writer->roller, database, schema, session);
    return r < 0 ? r : prepare_statements(writer);
}

static void free_procs(struct sample_writer *writer)
{
    size_t position = 0;
    struct proc_row *row;

    while ((row = map_next(&writer->procs, &position)))
        proc_row_free(row);
    map_clear(&writer->procs);
}

void sample_writer_done(struct sample_writer *writer)
{
    sqlite3_stmt *statements[] = {writer->insert_snap,   writer->insert_proc, writer->end_proc,
                                  writer->insert_sample, writer->insert_gpu,  writer->insert_usage};

    free_procs(writer);
    map_done(&writer->procs);
    inherited_processes_done(&writer->inherited);
    minute_roller_done(&writer->roller);
    for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
        sqlite3_finalize(statements[i]);
    *writer = (struct sample_writer){0};
}

/* ---- rows of `proc` ---- */

static struct proc_row *proc_row_new(struct sample_writer *writer,
                                     const struct process_metric *process, int64_t run)
{
    const struct columns *columns = &writer->schema->life;
    size_t count = columns->count + writer->schema->sample.count;
    struct proc_row *row = calloc(1, sizeof(*row) + count * sizeof(row->codes[0]));

    if (!row)
        return NULL;
    row->pid = process->pid;
    row->start_ticks = process->start_ticks;
    row->run = run;
    for (size_t i = 0; i < columns->count; i++)
        row->codes[i] = column_code(&columns->items[i], process);
    if (process->command && !(row->command = strdup(process->command))) {
        proc_row_free(row);
        return NULL;
    }
    return row;
}

static int insert_proc(struct sample_writer *writer, struct proc_row *row,
                       const struct process_metric *process)
{
    const struct columns *columns = &writer->schema->life;
    sqlite3_stmt *insert = writer->insert_proc;
    int r = 0;

    sqlite3_bind_int64(insert, 1, writer->session);
    sqlite3_bind_int64(insert, 2, writer->roller.from_tick);
    sqlite3_bind_int64(insert, 3, writer->tick);
    sqlite3_bind_int64(insert, 4, TICK_OPEN);
    column_bind_code(insert, 5, row->run);
    sqlite3_bind_int64(insert, 6, (int64_t)process->start_ticks);
    for (size_t i = 0; i < columns->count && r == 0; i++)
        r = column_bind(&columns->items[i], process, writer->texts, insert,
                        PROC_OWN_COUNT + 1 + (int)i);
    if (r == 0)
        r = database_run(writer->database, insert);
    row->proc = sqlite3_last_insert_rowid(writer->database->handle);
    return r;
}

static int begin_proc(struct sample_writer *writer, const struct process_metric *process,
                      int64_t run, struct proc_row **ret)
{
    struct proc_row *row = proc_row_new(writer, process, run);

    if (!row)
        return database_fail_errno(writer->database, -ENOMEM);
    int r = insert_proc(writer, row, process);
    if (r == 0 && map_put(&writer->procs, (uint64_t)row->pid, row) < 0)
        r = database_fail_errno(writer->database, -ENOMEM);
    if (r < 0) {
        proc_row_free(row);
        return r;
    }
    *ret = row;
    return 0;
}

/* The process was last seen in the snapshot before this one. */
static int end_proc(struct sample_writer *writer, struct proc_row *row)
{
    int64_t proc = row->proc, seen_tick = row->seen_tick, age = AGE_UNKNOWN;

    if (int_is_known(writer->age_clock))
        age = (int64_t)((uint64_t)writer->age_clock - row->start_ticks);
    map_remove(&writer->procs, (uint64_t)row->pid);
    proc_row_free(row);
    if (!proc)
        return 0;
    minute_roller_end(&writer->roller.processes, (uint64_t)proc, age);
    sqlite3_bind_int64(writer->end_proc, 1, seen_tick);
    sqlite3_bind_int64(writer->end_proc, 2, proc);
    return database_run(writer->database, writer->end_proc);
}

static bool is_same_process(const struct proc_row *row, const struct process_metric *process)
{
    return row->start_ticks == process->start_ticks;
}

static bool is_same_proc(const struct sample_writer *writer, const struct proc_row *row,
                         const struct process_metric *process, int64_t run)
{
    const struct columns *columns = &writer->schema->life;

    if (!row->proc || !is_same_process(row, process) || row->run != run ||
        !text_is_same(row->command, process->command))
        return false;
    for (size_t i = 0; i < columns->count; i++)
        if (column_code(&columns->items[i], process) != row->codes[i])
            return false;
    return true;
}

static int end_gone(struct sample_writer *writer)
{
    size_t position = 0;
    struct proc_row *row;
    int r = 0;

    while (r == 0 && (row = map_next(&writer->procs, &position)))
        if (row->seen_tick != writer->tick) {
            r = end_proc(writer, row);
            position--; /* map_remove() may have moved another entry here */
        }
    return r;
}

/* ---- one process ---- */

/* The age is left out if it follows from the clock of the snapshot. Otherwise every sample would
 * differ from the previous one. */
static void code_sample(const struct sample_writer *writer, const struct process_metric *process,
                        int64_t age_clock, int64_t *codes)
{
    const struct columns *columns = &writer->schema->sample;
    int64_t *age = &codes[writer->age_at];

    for (size_t i = 0; i < columns->count; i++)
        codes[i] = column_code(&columns->items[i], process);
    if (!int_is_known(*age))
        *age = int_is_known(age_clock) ? AGE_UNKNOWN : INT_UNKNOWN;
    else if (int_is_known(age_clock) &&
             (uint64_t)*age + process->start_ticks == (uint64_t)age_clock)
        *age = INT_UNKNOWN;
}

/* A copy for comparison: without texts and without the age, which always changes. */
static struct process_metric numbers_of(const struct process_metric *process)
{
    struct process_metric plain = *process;

    plain.command = plain.job_id = plain.run_id = NULL;
    plain.age_seconds = 0;
    return plain;
}

/* Most processes are idle. If all bytes equal those of the last sample, its codes are still valid
 * and need not be computed again. */
static bool is_idle(const struct sample_writer *writer, struct proc_row *row,
                    const struct process_metric *process, int64_t run, int64_t age_clock)
{
    const struct column *age = &writer->schema->sample.items[writer->age_at];
    struct process_metric plain = numbers_of(process);

    if (!row || !row->proc || !row->seen_tick || row->run != run || process->syscall_counts.items ||
        process->syscall_time_pct.items || memcmp(&plain, &row->last, sizeof(plain)) != 0 ||
        !text_is_same(row->command, process->command))
        return false;
    int64_t steps = column_code(age, process);
    return int_is_known(steps) && int_is_known(age_clock) &&
           !int_is_known(proc_row_sample(writer, row)[writer->age_at]) &&
           (uint64_t)steps + process->start_ticks == (uint64_t)age_clock;
}

/* Updates a counter; returns its growth since it was last known, or INT_UNKNOWN if it is not known.
 */
static int64_t grow(int64_t *counter, int64_t now)
{
    int64_t before = *counter;

    if (!int_is_known(now))
        return now;
    *counter = now;
    /* An overflow means a forged value. */
    return now > before && !__builtin_sub_overflow(now, before, &now) ? now : 0;
}

/* Updates the counters of a process; returns what the sample adds to its run and its step. */
static struct process_delta update_counters(const struct sample_writer *writer,
                                            struct proc_row *row, const int64_t *codes)
{
    const struct column *cpu = &writer->schema->sample.items[writer->counter_at[COUNTER_CPU]];
    struct counted_process *counted = &row->counted;
    bool is_dead = codes[writer->state_at] == 'Z',
         is_new = !counted->is_counted || counted->run != row->run;
    bool is_left_zombie = !is_new && counted->was_zombie && is_dead;
    int64_t more[COUNTERS];

    for (size_t i = 0; i < COUNTERS; i++)
        more[i] = grow(&counted->counters[i], codes[writer->counter_at[i]]);
    counted->is_counted = true;
    counted->was_zombie = is_dead;
    counted->run = row->run;
    return (struct process_delta){
        .is_new = is_new,
        .is_left_zombie = is_left_zombie,
        .cpu_seconds =
            int_is_known(more[COUNTER_CPU]) ? (double)more[COUNTER_CPU] / cpu->steps_per_unit : 0,
        .read_bytes = more[COUNTER_READ],
        .write_bytes = more[COUNTER_WRITE],
    };
}

static int insert_sample(struct sample_writer *writer, const struct proc_row *row,
                         const struct process_metric *process, const int64_t *codes, bool is_same)
{
    const struct columns *columns = &writer->schema->sample;
    sqlite3_stmt *insert = writer->insert_sample;
    int r = 0;

    sqlite3_bind_int64(insert, 1, writer->session);
    sqlite3_bind_int64(insert, 2, writer->tick << 32 | row->proc);
    sqlite3_bind_int(insert, 3, is_same);
    for (size_t i = 0; i < columns->count && r == 0; i++) {
        int at = SAMPLE_OWN_COUNT + 1 + (int)i;
        if (columns->items[i].form == COLUMN_STEPS)
            column_bind_code(insert, at, codes[i]);
        else
            r = column_bind(&columns->items[i], process, writer->texts, insert, at);
    }
    if (r == -ENOMEM)
        return database_fail_errno(writer->database, -ENOMEM);
    return r < 0 ? r : database_run(writer->database, insert);
}

static int find_run(struct sample_writer *writer, const char *run_id, const char *job_id,
                    struct run_row **ret)
{
    *ret = NULL;
    return run_id ? run_table_get(writer->runs, run_id, job_id, ret) : 0;
}

/* Finds the row of a process, or begins one that continues the counters of the previous row. */
static int find_or_begin_proc(struct sample_writer *writer, const struct process_metric *process,
                              int64_t run, struct proc_row **ret)
{
    struct proc_row *row = map_get(&writer->procs, (uint64_t)process->pid);
    struct counted_process counted = {.is_counted = false}, stored_counted = counted;

    *ret = row;
    if (row && is_same_proc(writer, row, process, run))
        return 0;
    if (row && is_same_process(row, process)) {
        counted = row->counted;
        stored_counted = row->stored_counted;
    }
    const struct counted_process *known =
        inherited_processes_find(&writer->inherited, process->pid, process->start_ticks);
    if (known && known->run == run) {
        counted_process_merge(&counted, known);
        counted_process_merge(&stored_counted, known);
    }
    int r = row ? end_proc(writer, row) : 0;
    if (r == 0)
        r = begin_proc(writer, process, run, ret);
    if (r == 0) {
        (*ret)->counted = counted;
        (*ret)->stored_counted = stored_counted;
    }
    return r;
}

static int write_process(struct sample_writer *writer, const struct process_metric *process,
                         int64_t age_clock, bool is_keyframe)
{
    size_t size = writer->schema->sample.count * sizeof(int64_t);
    int64_t codes[COLUMNS_MAX];
    struct proc_row *row = NULL, *known = map_get(&writer->procs, (uint64_t)process->pid);
    struct run_row *run;

    /* A second process with the same pid is an error of the sampler. It is not stored. */
    if (known && known->seen_tick == writer->tick)
        return 0;
    int r = find_run(writer, process->run_id, process->job_id, &run);
    if (r < 0)
        return r;
    int64_t run_number = run ? run->id : INT_UNKNOWN;
    bool is_same = is_idle(writer, known, process, run_number, age_clock);
    if (is_same) {
        row = known;
        memcpy(codes, proc_row_sample(writer, row), size);
    } else {
        r = find_or_begin_proc(writer, process, run_number, &row);
        if (r < 0)
            return r;
        code_sample(writer, process, age_clock, codes);
        is_same = row->seen_tick && memcmp(codes, proc_row_sample(writer, row), size) == 0;
        row->last = numbers_of(process);
    }
    if (!is_same || is_keyframe)
        r = insert_sample(writer, row, process, codes, is_same);
    memcpy(proc_row_sample(writer, row), codes, size);
    row->seen_tick = writer->tick;
    struct process_delta delta = update_counters(writer, row, codes);
    if (r == 0 && run)
        r = run_table_add_process(writer->runs, run, process, &delta);
    if (r == 0)
        r = minute_roller_add(&writer->roller.processes, (uint64_t)row->proc, codes, 1);
    return r == -ENOMEM ? database_fail_errno(writer->database, -ENOMEM) : r;
}

/* ---- changes during a session ---- */

int sample_writer_inherit(struct sample_writer *writer, int64_t run)
{
    size_t position = 0;
    struct inherited_process *known;

    int r = inherited_processes_load(&writer->inherited, writer->database, run, writer->session);
    /* The other session may have counted more of the processes that this one already samples. */
    while (r == 0 && (known = inherited_processes_next(&writer->inherited, &position))) {
        struct proc_row *row = map_get(&writer->procs, (uint64_t)known->pid);
        if (known->counted.run != run || !row || row->start_ticks != known->start_ticks)
            continue;
        counted_process_merge(&row->counted, &known->counted);
        counted_process_merge(&row->stored_counted, &known->counted);
    }
    return r;
}

/* ---- a snapshot ---- */

/* The sum of age and start of a process, which is the same for all processes. */
static int64_t find_age_clock(const struct sample_writer *writer, const struct snapshot *snapshot)
{
    const struct column *age = &writer->schema->sample.items[writer->age_at];

    for (size_t i = 0; i < snapshot->processes.count; i++) {
        const struct process_metric *process = &snapshot->processes.items[i];
        int64_t steps = column_code(age, process);
        if (int_is_known(steps))
            return (int64_t)((uint64_t)steps + process->start_ticks);
    }
    return INT_UNKNOWN;
}

/* Two writers may choose the same id; the second takes the next free one. */
#define SAME_ID_MAX 1000

static int insert_snap(struct sample_writer *writer, const struct snapshot *snapshot,
                       struct snap_key *key)
{
    const struct columns *columns = &writer->schema->snapshot;
    sqlite3_stmt *insert = writer->insert_snap;
    int r = 0;

    if (!snapshot->zombie_pids.count && !snapshot->job_progress.count)
        text_pool_forget_list(writer->texts);
    sqlite3_bind_int64(insert, 2, writer->session);
    sqlite3_bind_int64(insert, 3, key->tick);
    sqlite3_bind_int64(insert, 4, key->child_count);
    column_bind_code(insert, 5, key->age_clock);
    for (size_t i = 0; i < columns->count && r == 0; i++)
        r = column_bind(&columns->items[i], snapshot, writer->texts, insert,
                        SNAP_OWN_COUNT + 1 + (int)i);
    if (r < 0)
        return r == -ENOMEM ? database_fail_errno(writer->database, -ENOMEM) : r;
    for (int tries = 0; tries < SAME_ID_MAX; tries++, key->id++) {
        sqlite3_bind_int64(insert, 1, key->id);
        r = database_run(writer->database, insert);
        if (r < 0 || sqlite3_changes(writer->database->handle))
            return r;
    }
    return database_fail_with(writer->database, -EEXIST, "no free id for a snapshot");
}

static int write_parts(struct sample_writer *writer, const struct snapshot *snapshot,
                       int64_t age_clock, bool is_keyframe)
{
    int r = 0;

    run_table_begin_snapshot(writer->runs, writer->tick);
    for (size_t i = 0; i < snapshot->processes.count && r == 0; i++)
        r = write_process(writer, &snapshot->processes.items[i], age_clock, is_keyframe);
    for (size_t i = 0; i < snapshot->gpus.count && r == 0; i++)
        r = sample_writer_add_gpu(writer, &snapshot->gpus.items[i]);
    for (size_t i = 0; i < snapshot->jobs.count && r == 0; i++)
        r = sample_writer_add_usage(writer, &snapshot->jobs.items[i]);
    if (r == 0)
        r = end_gone(writer);
    if (r == 0)
        r = run_table_end_snapshot(writer->runs);
    return r;
}

/* After a failed transaction: continues from the state in the database. */
static int restart(struct sample_writer *writer)
{
    writer->tick = 0;
    int r = session_last_tick(writer->database, writer->session, &writer->tick);
    if (r == 0 && writer->tick)
        r = session_settle(writer->database, writer->schema, writer->session, writer->tick);
    return r;
}

int sample_writer_write(struct sample_writer *writer, const struct snapshot *snapshot)
{
    struct snap_key key = {.child_count = (int64_t)snapshot->processes.count,
                           .age_clock = find_age_clock(writer, snapshot),
                           .id = snapshot->id};
    int r = writer->must_restart ? restart(writer) : 0;
    if (r < 0)
        return r;
    writer->must_restart = true; /* until the snapshot is written */

    bool is_keyframe = writer->tick + 1 - writer->keyframe_tick >= KEYFRAME_TICKS;
    if (is_keyframe)
        r = session_fold(writer->database, writer->schema, writer->session, writer->tick);
    is_keyframe = is_keyframe || !writer->keyframe_tick;
    key.tick = ++writer->tick;
    if (is_keyframe)
        writer->keyframe_tick = writer->tick;
    if (r == 0)
        r = insert_snap(writer, snapshot, &key);
    if (r == 0)
        r = minute_roller_begin(&writer->roller, snapshot, &key);
    if (r == 0)
        r = write_parts(writer, snapshot, key.age_clock, is_keyframe);
    writer->age_clock = key.age_clock;
    writer->must_restart = r < 0;
    return r;
}

void sample_writer_commit(struct sample_writer *writer)
{
    size_t position = 0;
    struct proc_row *row;

    while ((row = map_next(&writer->procs, &position)))
        row->stored_counted = row->counted;
    inherited_processes_commit(&writer->inherited);
}

void sample_writer_reset(struct sample_writer *writer)
{
    size_t position = 0;
    struct proc_row *row;

    /* Only the rows are dropped: what was counted of a process must not count again. */
    while ((row = map_next(&writer->procs, &position))) {
        row->proc = 0;
        row->seen_tick = 0;
        row->counted = row->stored_counted;
    }
    inherited_processes_reset(&writer->inherited);
    minute_roller_reset(&writer->roller);
    writer->keyframe_tick = 0;
    writer->must_restart = true;
}

int sample_writer_end(struct sample_writer *writer)
{
    if (writer->must_restart)
        return restart(writer);
    int r = run_table_write_changes(writer->runs);
    if (r == 0)
        r = minute_roller_flush(&writer->roller);
    return r < 0 ? r
                 : session_settle(writer->database, writer->schema, writer->session, writer->tick);
}
