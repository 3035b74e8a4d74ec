/* The cost of storing: writes the same ticks of busy-machine.h to sonde's store, or with plain SQL
 * to the schema of the reference.
 *
 *   store-cost sonde|reference|published FILE TICKS
 *
 * Runs and steps, which the reference does not store, are stored too, but not measured.
 *
 * Prints one line: CPU ns of all ticks, of the median and of the costliest one, bytes written to
 * files, bytes of the file after a checkpoint, events.
 *
 * The reference: REAL and TEXT columns, the command line in each row, one transaction a snapshot.
 * `published` is as its source has it (index on the job, foreign keys), `reference` has an index on
 * the pid instead. Both flush the log at checkpoints only, where its source flushes each commit. */
#include <sqlite3.h>
#include <sys/stat.h>

#include "busy-machine.h"
#include "worker.h"

#define INTERVAL 5.0

static void fail(sqlite3 *database)
{
    fprintf(stderr, "%s\n", sqlite3_errmsg(database));
    exit(1);
}

static void execute(sqlite3 *database, const char *sql)
{
    if (sqlite3_exec(database, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail(database);
}

static sqlite3 *open_plain(const char *path)
{
    sqlite3 *database;

    if (sqlite3_open(path, &database) != SQLITE_OK)
        fail(database);
    return database;
}

/* ---- the reference ---- */

static const char reference_schema[] =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
    "CREATE TABLE snapshots (id INTEGER PRIMARY KEY, timestamp REAL NOT NULL, daemon_pid INTEGER,"
    " system_memory_total_mb REAL, system_memory_available_mb REAL, system_memory_used_mb REAL,"
    " daemon_rss_mb REAL, child_count INTEGER, zombie_count INTEGER, load_avg_1 REAL,"
    " load_avg_5 REAL, load_avg_15 REAL, gpu_count INTEGER, gpu_utilization_pct TEXT,"
    " gpu_memory_used_mb TEXT, gpu_temperature TEXT, pressure_level TEXT, running_jobs INTEGER,"
    " active_sheets INTEGER);"
    "CREATE TABLE process_metrics (id INTEGER PRIMARY KEY, snapshot_id INTEGER REFERENCES"
    " snapshots (id), pid INTEGER NOT NULL, ppid INTEGER, command TEXT, state TEXT, cpu_percent "
    "REAL, rss_mb REAL, vms_mb REAL,"
    " threads INTEGER, open_fds INTEGER, age_seconds REAL, job_id TEXT, sheet_num INTEGER,"
    " syscall_counts TEXT, syscall_time_pct TEXT);"
    "CREATE TABLE process_events (id INTEGER PRIMARY KEY, timestamp REAL NOT NULL, pid INTEGER NOT"
    " NULL, event_type TEXT NOT NULL, exit_code INTEGER, signal_num INTEGER, job_id TEXT,"
    " sheet_num INTEGER, details TEXT);"
    "CREATE INDEX snapshots_time ON snapshots (timestamp);"
    "CREATE INDEX metrics_snapshot ON process_metrics (snapshot_id);"
    "CREATE INDEX events_time ON process_events (timestamp);"
    "CREATE INDEX events_job ON process_events (job_id);";

struct reference {
    sqlite3 *database;
    sqlite3_stmt *snapshot, *metric, *event, *begin, *commit;
};

static void prepare(struct reference *reference, const char *sql, sqlite3_stmt **ret)
{
    if (sqlite3_prepare_v3(reference->database, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) !=
        SQLITE_OK)
        fail(reference->database);
}

static void reference_open(struct reference *reference, const char *path, bool as_published)
{
    reference->database = open_plain(path);
    execute(reference->database, reference_schema);
    execute(reference->database, "PRAGMA foreign_keys = ON");
    execute(reference->database, as_published
                                     ? "CREATE INDEX metrics_job ON process_metrics (job_id)"
                                     : "CREATE INDEX metrics_pid ON process_metrics (pid)");
    prepare(reference,
            "INSERT INTO snapshots VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
            " ?, ?)",
            &reference->snapshot);
    prepare(reference,
            "INSERT INTO process_metrics VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
            " ?)",
            &reference->metric);
    prepare(reference, "INSERT INTO process_events VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
            &reference->event);
    prepare(reference, "BEGIN IMMEDIATE", &reference->begin);
    prepare(reference, "COMMIT", &reference->commit);
}

static void run(struct reference *reference, sqlite3_stmt *statement)
{
    if (sqlite3_step(statement) != SQLITE_DONE)
        fail(reference->database);
    sqlite3_reset(statement);
}

/* Each binds the next parameter. */
struct binder {
    sqlite3_stmt *statement;
    int at;
};

static void bind_int(struct binder *binder, int64_t value)
{
    if (int_is_known(value))
        sqlite3_bind_int64(binder->statement, ++binder->at, value);
    else
        sqlite3_bind_null(binder->statement, ++binder->at);
}

/* NaN becomes NULL. */
static void bind_real(struct binder *binder, double value)
{
    sqlite3_bind_double(binder->statement, ++binder->at, value);
}

static void bind_text(struct binder *binder, const char *value)
{
    sqlite3_bind_text(binder->statement, ++binder->at, value, -1, SQLITE_STATIC);
}

static void bind_array(struct binder *binder, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "[%g]", value);
    sqlite3_bind_text(binder->statement, ++binder->at, text, -1, SQLITE_TRANSIENT);
}

static void write_snapshot(struct reference *reference, const struct snapshot *snapshot)
{
    struct binder to = {.statement = reference->snapshot};

    bind_real(&to, snapshot->timestamp);
    bind_int(&to, snapshot->daemon_pid);
    bind_real(&to, snapshot->system_memory_total_mb);
    bind_real(&to, snapshot->system_memory_available_mb);
    bind_real(&to, snapshot->system_memory_used_mb);
    bind_real(&to, snapshot->daemon_rss_mb);
    bind_int(&to, (int64_t)snapshot->processes.count);
    bind_int(&to, snapshot->zombie_count);
    bind_real(&to, snapshot->load_avg_1);
    bind_real(&to, snapshot->load_avg_5);
    bind_real(&to, snapshot->load_avg_15);
    bind_int(&to, (int64_t)snapshot->gpus.count);
    bind_array(&to, snapshot->gpus.items[0].utilization_pct);
    bind_array(&to, snapshot->gpus.items[0].memory_used_mb);
    bind_array(&to, snapshot->gpus.items[0].temperature_c);
    bind_text(&to, "none");
    bind_int(&to, snapshot->running_jobs);
    bind_int(&to, snapshot->active_sheets);
    run(reference, reference->snapshot);
}

static void write_metric(struct reference *reference, int64_t snapshot_id,
                         const struct process_metric *process)
{
    const char state[] = {process->state, '\0'};
    const char *calls = process->syscall_counts.items ? "{\"read\": 1834, \"futex\": 4123}" : "{}";
    struct binder to = {.statement = reference->metric};

    bind_int(&to, snapshot_id);
    bind_int(&to, process->pid);
    bind_int(&to, process->ppid);
    bind_text(&to, process->command);
    bind_text(&to, state);
    bind_real(&to, process->cpu_percent);
    bind_real(&to, process->rss_mb);
    bind_real(&to, process->vms_mb);
    bind_int(&to, process->threads);
    bind_int(&to, process->open_fds);
    bind_real(&to, process->age_seconds);
    bind_text(&to, process->job_id);
    bind_int(&to, process->sheet_num);
    bind_text(&to, calls);
    bind_text(&to, calls);
    run(reference, reference->metric);
}

static void write_event(struct reference *reference, const struct process_event *event)
{
    static const char *const names[] = {NULL, "spawn", "exec", "exit", "signal", "kill", "oom"};
    struct binder to = {.statement = reference->event};

    bind_real(&to, event->timestamp);
    bind_int(&to, event->pid);
    bind_text(&to, names[event->event_type]);
    bind_int(&to, event->exit_code);
    bind_int(&to, event->signal_num);
    bind_text(&to, event->job_id);
    bind_int(&to, event->sheet_num);
    bind_text(&to, "");
    run(reference, reference->event);
}

static void reference_write(struct reference *reference, const struct tick *tick)
{
    run(reference, reference->begin);
    write_snapshot(reference, tick->snapshot);
    int64_t id = sqlite3_last_insert_rowid(reference->database);
    for (size_t i = 0; i < tick->snapshot->processes.count; i++)
        write_metric(reference, id, &tick->snapshot->processes.items[i]);
    for (size_t i = 0; i < tick->events.count; i++)
        write_event(reference, &tick->events.items[i]);
    run(reference, reference->commit);
}

static void reference_close(struct reference *reference)
{
    sqlite3_stmt *statements[] = {reference->snapshot, reference->metric, reference->event,
                                  reference->begin, reference->commit};

    for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
        sqlite3_finalize(statements[i]);
    sqlite3_close(reference->database);
}

/* ---- measuring ---- */

static uint64_t bytes_written(void)
{
    FILE *file = fopen("/proc/self/io", "re");
    unsigned long long read_count = 0, written = 0;

    if (!file || fscanf(file, "rchar: %llu wchar: %llu", &read_count, &written) != 2)
        abort();
    fclose(file);
    return written;
}

static uint64_t file_bytes(const char *path)
{
    sqlite3 *database = open_plain(path);
    struct stat st;

    execute(database, "PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_close(database);
    if (stat(path, &st) < 0)
        abort();
    return (uint64_t)st.st_size;
}

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

int main(int argc, char **argv)
{
    static struct machine machine;
    static struct machine_news news;
    struct reference reference;
    struct store *store = NULL;
    uint64_t sum_ns = 0;
    size_t events = 0;

    if (argc != 4)
        return 2;
    const char *path = argv[2];
    size_t ticks = strtoul(argv[3], NULL, 10);
    uint64_t *costs_ns = calloc(ticks, sizeof(*costs_ns));
    if (!costs_ns)
        return 1;

    machine_init(&machine, 1.75e9, INTERVAL);
    if (strcmp(argv[1], "sonde") == 0)
        store = machine_open_store(path, INTERVAL, MACHINE_KEEP_ALL);
    else
        reference_open(&reference, path, strcmp(argv[1], "published") == 0);
    uint64_t written = bytes_written();
    for (size_t i = 0; i < ticks; i++) {
        machine_next(&machine, &news);
        if (store)
            machine_begin_jobs(store, &news);
        uint64_t started_ns = worker_cpu_ns();
        if (store)
            machine_check(store, store_write_tick(store, &news.tick));
        else
            reference_write(&reference, &news.tick);
        costs_ns[i] = worker_cpu_ns() - started_ns;
        if (store)
            machine_end_jobs(store, &news);
        sum_ns += costs_ns[i];
        events += news.tick.events.count;
        machine_forget(&news);
    }
    written = bytes_written() - written;
    if (store)
        machine_check(store, store_close(store));
    else
        reference_close(&reference);

    qsort(costs_ns, ticks, sizeof(*costs_ns), compare);
    printf("%llu %llu %llu %llu %llu %zu\n", (unsigned long long)sum_ns,
           (unsigned long long)costs_ns[ticks / 2], (unsigned long long)costs_ns[ticks - 1],
           (unsigned long long)written, (unsigned long long)file_bytes(path), events);
    free(costs_ns);
    return 0;
}
