/* Makes days of data in sonde's store, from busy-machine.h through the store's own interface, and
 * measures operations on them within one process.
 *
 *   store-week generate FILE DAYS   a tick every 5 s, the last one now; prints names to query as
 *                                   lines of `name value`
 *   store-week open FILE ROUNDS     opens it as writer and as reader; a line a round: wall ns, CPU
 *                                   ns of the one, then of the other
 *   store-week beside FILE HOURS    one process writes a tick every 100 ms, another applies
 *                                   retention, with HOURS at full resolution
 *   store-week within FILE HOURS    the same through the thread of src/writer, which does both
 *
 * The last two print one line: the ms of retention, the number of ticks, how many were late
 * (beside) or lost (within), and the longest ms to write a tick (beside) or to queue it (within).
 */
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "busy-machine.h"
#include "worker.h"
#include "writer/store-writer.h"

#define INTERVAL       5.0
#define QUICK_INTERVAL 0.1
#define PATIENCE_TICKS 3000

static struct machine machine;
static struct machine_news news;

static void execute(const char *path, const char *sql)
{
    sqlite3 *database;

    if (sqlite3_open(path, &database) != SQLITE_OK ||
        sqlite3_exec(database, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(database));
        exit(1);
    }
    sqlite3_close(database);
}

static double wall_sec(void)
{
    return ns_to_sec(clock_real_ns());
}

/* ---- generating ---- */

/* Chooses names to query from the middle of the data. */
static void choose(int64_t ticks)
{
    static bool has_job;
    int64_t hour = (int64_t)(3600 / INTERVAL);
    const struct machine_process *busy = machine.processes;

    while (!busy->is_busy)
        busy++;
    if (machine.tick == 1)
        printf("first_snapshot %lld\n", (long long)machine.snapshot_id);
    if (machine.tick == ticks / 2) {
        printf("snapshot %lld\n", (long long)machine.snapshot_id);
        printf("pid %lld\nfrom %.3f\n", (long long)busy->pid, machine.timestamp);
    }
    if (machine.tick == ticks / 2 + hour)
        printf("to %.3f\n", machine.timestamp);
    for (size_t i = 0; i < news.ended_count && !has_job && machine.tick > ticks / 2; i++)
        if (strncmp(news.ended[i].job_id, "nightly", 7) != 0 &&
            news.ended[i].profile.wall_seconds > 1200 && news.sheet_count) {
            printf("job %s\nrun %s\n", news.ended[i].job_id, news.ended[i].run_id);
            has_job = true;
        }
    if (machine.tick == ticks)
        printf("last_pid %lld\nlast %.3f\n", (long long)busy->pid, machine.timestamp);
}

static void generate(const char *path, double days)
{
    int64_t ticks = (int64_t)(days * 86400 / INTERVAL);
    struct store *store = machine_open_store(path, INTERVAL, MACHINE_KEEP_ALL);
    uint64_t started_ns = clock_mono_ns(), cpu_ns = worker_cpu_ns();

    machine_init(&machine, floor(wall_sec()) - (double)(ticks - 1) * INTERVAL, INTERVAL);
    for (int64_t i = 0; i < ticks; i++) {
        machine_next(&machine, &news);
        machine_write(store, &news);
        choose(ticks);
        machine_forget(&news);
    }
    /* The session is not closed, like that of a running daemon. Its start is set to the time of its
     * first snapshot. */
    execute(path, "UPDATE sessions SET started_at = (SELECT min(timestamp) FROM snap);"
                  "PRAGMA wal_checkpoint(TRUNCATE)");
    printf("ticks %lld\nruns %u\nwall_seconds %.1f\ncpu_seconds %.1f\n", (long long)ticks,
           machine.runs, ns_to_sec(clock_mono_ns() - started_ns),
           ns_to_sec(worker_cpu_ns() - cpu_ns));
}

/* ---- opening ---- */

static void open_writer(const char *path)
{
    struct store *store = machine_open_store(path, INTERVAL, MACHINE_KEEP_ALL);
    machine_check(store, store_close(store));
}

static void open_reader(const char *path)
{
    struct store_reader *reader;
    struct store_error error;

    if (store_reader_open(path, &reader, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    store_reader_close(reader);
}

static void measure_opening(const char *path, int rounds)
{
    void (*const ways[])(const char *) = {open_writer, open_reader};

    for (int i = 0; i < rounds; i++)
        for (size_t k = 0; k < ARRAY_SIZE(ways); k++) {
            uint64_t wall_ns = clock_mono_ns(), cpu_ns = worker_cpu_ns();
            ways[k](path);
            printf("%llu %llu%c", (unsigned long long)(clock_mono_ns() - wall_ns),
                   (unsigned long long)(worker_cpu_ns() - cpu_ns), k ? '\n' : ' ');
        }
}

/* ---- retention beside a writer ---- */

struct pace {
    uint64_t next_ns;
    uint64_t ticks, late;
    uint64_t longest_ns;
};

static void await_tick(struct pace *pace)
{
    const struct timespec at = {.tv_sec = (time_t)(pace->next_ns / NS_PER_SEC),
                                .tv_nsec = (long)(pace->next_ns % NS_PER_SEC)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* The tick took until now: ticks that were due meanwhile are late. */
static void note_tick(struct pace *pace, uint64_t started_ns)
{
    uint64_t interval_ns = (uint64_t)(QUICK_INTERVAL * 1e9);
    uint64_t now_ns = clock_mono_ns();

    pace->ticks++;
    pace->longest_ns = MAX(pace->longest_ns, now_ns - started_ns);
    for (pace->next_ns += interval_ns; pace->next_ns < now_ns; pace->next_ns += interval_ns)
        pace->late++;
}

static void report_pace(const struct pace *pace, double retention_ms)
{
    printf("%.0f %llu %llu %.1f\n", retention_ms, (unsigned long long)pace->ticks,
           (unsigned long long)pace->late, (double)pace->longest_ns / 1e6);
}

static pid_t start_retention(const char *path, double hours)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct store *store = machine_open_store(path, INTERVAL, hours);
    machine_check(store, store_retain(store, wall_sec()));
    machine_check(store, store_close(store));
    _exit(0);
}

static void retain_beside(const char *path, double hours)
{
    struct store *store = machine_open_store(path, QUICK_INTERVAL, MACHINE_KEEP_ALL);
    uint64_t started_ns = clock_mono_ns();
    struct pace pace = {.next_ns = started_ns};
    int status;

    machine_init(&machine, wall_sec(), QUICK_INTERVAL);
    pid_t pid = start_retention(path, hours);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        await_tick(&pace);
        machine_next(&machine, &news);
        uint64_t tick_ns = clock_mono_ns();
        machine_write(store, &news);
        note_tick(&pace, tick_ns);
        machine_forget(&news);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        exit(1);
    report_pace(&pace, (double)(clock_mono_ns() - started_ns) / 1e6);
    machine_check(store, store_close(store));
}

/* ---- retention in the writer's thread ---- */

static void say(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "%s\n", text);
}

static bool has_retained(sqlite3 *database, double since)
{
    static const char sql[] = "SELECT 1 FROM upkeep WHERE name = 'retention' AND at >= ?";
    sqlite3_stmt *ask;

    if (sqlite3_prepare_v2(database, sql, -1, &ask, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_double(ask, 1, since);
    bool is_there = sqlite3_step(ask) == SQLITE_ROW;
    sqlite3_finalize(ask);
    return is_there;
}

static void hand_over(struct store_writer *writer)
{
    struct tick_box *box = tick_box_new();

    machine_next(&machine, &news);
    if (!box)
        abort();
    box->tick.snapshot = news.tick.snapshot;
    store_writer_tick(writer, box);
}

static void retain_within(const char *path, double hours)
{
    const struct store_writer_options options = {
        .store = {.path = path,
                  .retention = {hours, 365, 365, 365},
                  .host = "bench",
                  .boot_id = "bench",
                  .collector = "bpf",
                  .interval_seconds = QUICK_INTERVAL},
        .on_notice = say,
    };
    double began_at = wall_sec();
    uint64_t started_ns = clock_mono_ns();
    struct pace pace = {.next_ns = started_ns};
    struct store_writer *writer;
    struct store_report report;
    sqlite3 *database;

    if (sqlite3_open(path, &database) != SQLITE_OK || store_writer_start(&options, &writer) < 0)
        exit(1);
    machine_init(&machine, wall_sec(), QUICK_INTERVAL);
    do {
        await_tick(&pace);
        uint64_t tick_ns = clock_mono_ns();
        hand_over(writer);
        note_tick(&pace, tick_ns);
    } while (!has_retained(database, began_at) && pace.ticks < PATIENCE_TICKS);
    double took_ms = (double)(clock_mono_ns() - started_ns) / 1e6;
    sqlite3_close(database);
    store_writer_stop(writer, &report);
    if (pace.ticks == PATIENCE_TICKS) {
        fprintf(stderr, "retention has not come to an end\n");
        exit(1);
    }
    pace.late = report.dropped;
    report_pace(&pace, took_ms);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const char *what = argv[1], *path = argv[2];
    double number = atof(argv[3]);

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(what, "generate") == 0)
        generate(path, number);
    else if (strcmp(what, "open") == 0)
        measure_opening(path, (int)number);
    else if (strcmp(what, "beside") == 0)
        retain_beside(path, number);
    else if (strcmp(what, "within") == 0)
        retain_within(path, number);
    else
        return 2;
    return 0;
}
