/* Drives the store through its interface, for the fault tests.
 *
 *   store-driver write PATH [OPTION…]   a session, tick after tick
 *   store-driver queue PATH [OPTION…]   the same through writer/store-writer
 *   store-driver check PATH             opens for writing, then reads everything
 *
 * `write` prints a line after each completed operation, so that a test that kills it at any point
 * knows what must be stored: OPEN milliseconds, RUN run_id job_id, TICK number timestamp, LOST
 * number timestamp reason, RETAINED or ROOM result, DONE ticks lost. A tick that cannot be stored
 * is counted, and the next stored tick carries the gap. Exits with status 1 and a message on stderr
 * if the store cannot be used at all. SIGTERM ends the ticks. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/number.h"
#include "synthetic-world.h"
#include "writer/store-writer.h"

/* As the writer thread does it. */
#define TRIES_MAX 3

struct options {
    const char *path;
    int64_t ticks;
    int64_t processes;
    double interval_seconds;
    double start;        /* Unix seconds; unknown: now */
    double pace_seconds; /* to sleep between ticks */
    int64_t seed;
    const char *job;
    int64_t retain_every; /* ticks; 0: never */
    double full_hours;
    double minute_days;
    const char *jsonl;
    int64_t jsonl_max_bytes;
    int64_t retry_ms; /* of the writer thread at a full disk */
    bool no_finish;
    bool stay; /* after the last tick, until killed */
};

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "store-driver: %s: %s\n", what, why);
    exit(1);
}

/* ---- options ---- */

enum option_type { OPTION_INT, OPTION_REAL, OPTION_TEXT, OPTION_FLAG };

static const struct {
    const char *name;
    enum option_type type;
    size_t offset;
} option_table[] = {
    {"ticks", OPTION_INT, offsetof(struct options, ticks)},
    {"processes", OPTION_INT, offsetof(struct options, processes)},
    {"interval", OPTION_REAL, offsetof(struct options, interval_seconds)},
    {"start", OPTION_REAL, offsetof(struct options, start)},
    {"pace", OPTION_REAL, offsetof(struct options, pace_seconds)},
    {"seed", OPTION_INT, offsetof(struct options, seed)},
    {"job", OPTION_TEXT, offsetof(struct options, job)},
    {"retain", OPTION_INT, offsetof(struct options, retain_every)},
    {"full-hours", OPTION_REAL, offsetof(struct options, full_hours)},
    {"minute-days", OPTION_REAL, offsetof(struct options, minute_days)},
    {"jsonl", OPTION_TEXT, offsetof(struct options, jsonl)},
    {"jsonl-max", OPTION_INT, offsetof(struct options, jsonl_max_bytes)},
    {"retry-ms", OPTION_INT, offsetof(struct options, retry_ms)},
    {"no-finish", OPTION_FLAG, offsetof(struct options, no_finish)},
    {"stay", OPTION_FLAG, offsetof(struct options, stay)},
};

static void set_option(struct options *options, int index, const char *text)
{
    void *value = (char *)options + option_table[index].offset;
    int r = 0;

    switch (option_table[index].type) {
    case OPTION_INT: r = number_parse_int(text, value); break;
    case OPTION_REAL: r = number_parse_real(text, value); break;
    case OPTION_TEXT: *(const char **)value = text; break;
    case OPTION_FLAG: *(bool *)value = true; break;
    }
    if (r < 0)
        fail(option_table[index].name, "not a number");
}

static struct options parse_options(int argc, char **argv)
{
    struct options options = {.ticks = 100,
                              .processes = 30,
                              .interval_seconds = 1,
                              .start = REAL_UNKNOWN,
                              .seed = 1,
                              .full_hours = 24,
                              .minute_days = 7,
                              .jsonl_max_bytes = 1 << 20};
    struct option table[ARRAY_SIZE(option_table) + 1] = {0};
    int index;

    for (size_t i = 0; i < ARRAY_SIZE(option_table); i++)
        table[i] = (struct option){.name = option_table[i].name,
                                   .has_arg = option_table[i].type != OPTION_FLAG};
    while (getopt_long(argc, argv, "", table, &index) == 0)
        set_option(&options, index, optarg);
    if (optind != argc - 1)
        fail("usage", "store-driver write|queue|check PATH [OPTION…]");
    options.path = argv[optind];
    if (!real_is_known(options.start))
        options.start = ns_to_sec(clock_real_ns());
    return options;
}

static struct store_options store_options_of(const struct options *options)
{
    return (struct store_options){
        .path = options->path,
        .jsonl_path = options->jsonl,
        .jsonl_max_bytes = options->jsonl_max_bytes,
        .retention = {.full_resolution_hours = options->full_hours,
                      .downsampled_days = options->minute_days,
                      .events_days = 30,
                      .jobs_days = 365},
        .host = SYNTHETIC_HOST,
        .boot_id = "5d0f6d1c-0000-4000-8000-000000000000",
        .collector = "procfs",
        .interval_seconds = options->interval_seconds,
    };
}

/* ---- what both ways of writing share ---- */

static volatile sig_atomic_t is_over;

static void on_terminate(int number)
{
    (void)number;
    is_over = true;
}

static void nap(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (seconds > 0)
        nanosleep(&time, NULL);
}

static struct job job_of(const struct synthetic_world *world)
{
    struct job job;

    record_init(&job_record, &job);
    job.run_id = world->run_id;
    job.job_id = world->job_id;
    job.job_type = "synthetic";
    job.command = "synthetic --world";
    job.host = SYNTHETIC_HOST;
    job.started_at = world->now;
    job.outcome = OUTCOME_RUNNING;
    return job;
}

static struct job finished_job_of(const struct synthetic_world *world)
{
    struct job job;

    record_init(&job_record, &job);
    job.run_id = world->run_id;
    job.ended_at = world->now;
    job.outcome = OUTCOME_SUCCESS;
    job.exit_code = 0;
    return job;
}

static void make_world(const struct options *options, struct synthetic_world *world)
{
    if (synthetic_world_init(world, (uint64_t)options->seed, (size_t)options->processes,
                             options->start, options->interval_seconds, options->job) < 0)
        fail("the world", "out of memory");
}

static void make_tick(struct synthetic_world *world, struct tick *tick)
{
    if (synthetic_world_tick(world, tick) < 0)
        fail("a tick", "out of memory");
}

/* ---- write ---- */

struct writing {
    struct options options;
    struct store *store;
    struct synthetic_world world;
    int64_t lost; /* since the last tick that could be stored */
    int64_t lost_in_all;
    bool has_made_room;
};

static void open_for_writing(struct writing *writing)
{
    struct store_options options = store_options_of(&writing->options);
    struct store_error error;
    uint64_t begun = clock_mono_ns();

    if (store_open(&options, &writing->store, &error) < 0)
        fail("cannot open", error.text);
    printf("OPEN %.1f\n", (double)(clock_mono_ns() - begun) / 1e6);
}

static void begin_job(struct writing *writing)
{
    struct job job = job_of(&writing->world);
    char job_id[JOB_ID_NUMBERED_MAX_BYTES];
    int r = -1;

    for (int tries = 0; r < 0 && tries < TRIES_MAX; tries++)
        r = store_begin_job(writing->store, &job, job_id);
    if (r < 0)
        fail("cannot begin the job", store_error(writing->store));
    printf("RUN %s %s\n", job.run_id, job_id);
}

static void finish_job(struct writing *writing)
{
    struct job job = finished_job_of(&writing->world);
    int r = -1;

    for (int tries = 0; r < 0 && tries < TRIES_MAX; tries++)
        r = store_finish_job(writing->store, &job);
    if (r < 0)
        fail("cannot finish the job", store_error(writing->store));
    printf("FINISHED %s\n", job.run_id);
}

static int store_tick(struct writing *writing, struct tick *tick)
{
    int r = store_write_tick(writing->store, tick);

    if (r != -ENOSPC || writing->has_made_room)
        return r;
    writing->has_made_room = true;
    int made = store_make_room(writing->store, writing->world.now);
    printf("ROOM %d\n", made);
    return made < 0 ? r : store_write_tick(writing->store, tick);
}

static void write_tick(struct writing *writing)
{
    struct gap gap = {.kind = GAP_NOT_STORED,
                      .timestamp = writing->world.now,
                      .seconds = (double)writing->lost * writing->options.interval_seconds,
                      .lost = writing->lost,
                      .reason = "it was tried in vain"};
    struct tick tick;

    make_tick(&writing->world, &tick);
    if (writing->lost)
        tick.gaps = (struct gap_list){.items = &gap, .count = 1};
    int r = store_tick(writing, &tick);
    if (r < 0) {
        printf("LOST %" PRId64 " %.6f %s\n", writing->world.tick, writing->world.now,
               store_error(writing->store));
        writing->lost++;
        writing->lost_in_all++;
    } else {
        printf("TICK %" PRId64 " %.6f\n", writing->world.tick, writing->world.now);
        writing->lost = 0;
        writing->has_made_room = false;
    }
    snapshot_unref(tick.snapshot);
}

static void retain(struct writing *writing)
{
    int r = store_retain(writing->store, writing->world.now);

    printf("RETAINED %d%s%s\n", r, r < 0 ? " " : "", r < 0 ? store_error(writing->store) : "");
}

static int write_all(int argc, char **argv)
{
    struct writing writing = {.options = parse_options(argc, argv)};
    const struct options *options = &writing.options;

    make_world(options, &writing.world);
    open_for_writing(&writing);
    if (options->job)
        begin_job(&writing);
    for (int64_t i = 1; i <= options->ticks && !is_over; i++) {
        write_tick(&writing);
        if (options->retain_every && i % options->retain_every == 0)
            retain(&writing);
        nap(options->pace_seconds);
    }
    while (options->stay && !is_over)
        pause();
    if (options->job && !options->no_finish)
        finish_job(&writing);
    int r = store_close(writing.store);
    printf("DONE %" PRId64 " %" PRId64 " %s\n", writing.world.tick, writing.lost_in_all,
           r < 0 ? strerror(-r) : "closed");
    synthetic_world_done(&writing.world);
    return 0;
}

/* ---- queue ---- */

static void on_notice(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "store-driver: %s\n", text);
}

static struct tick_box *box_of(struct synthetic_world *world)
{
    struct tick_box *box = tick_box_new();
    struct tick tick;

    if (!box)
        fail("a tick", "out of memory");
    make_tick(world, &tick);
    box->tick.snapshot = tick.snapshot;
    box->tick.events.items = calloc(tick.events.count, sizeof(tick.events.items[0]));
    if (!box->tick.events.items)
        fail("a tick", "out of memory");
    memcpy(box->tick.events.items, tick.events.items,
           tick.events.count * sizeof(tick.events.items[0]));
    box->tick.events.count = box->event_capacity = tick.events.count;
    return box;
}

static int queue_all(int argc, char **argv)
{
    struct options options = parse_options(argc, argv);
    const struct store_writer_options wanted = {
        .store = store_options_of(&options),
        .pace = {.retry_ns = (uint64_t)options.retry_ms * NS_PER_MSEC},
        .on_notice = on_notice,
    };
    struct synthetic_world world;
    struct store_writer *writer;
    struct store_report report;

    make_world(&options, &world);
    if (store_writer_start(&wanted, &writer) < 0)
        fail("the writer", "cannot be started");
    struct job job = job_of(&world);
    if (options.job)
        store_writer_begin_job(writer, &job);
    for (int64_t i = 1; i <= options.ticks && !is_over; i++) {
        store_writer_tick(writer, box_of(&world));
        printf("QUEUED %" PRId64 " %.6f\n", world.tick, world.now);
        nap(options.pace_seconds);
    }
    job = finished_job_of(&world);
    if (options.job)
        store_writer_finish_job(writer, &job);
    store_writer_stop(writer, &report);
    printf("DONE %" PRIu64 " %" PRIu64 " %s\n", report.stored, report.dropped, report.error);
    synthetic_world_done(&world);
    return 0;
}

/* ---- check ---- */

static void open_and_close(const char *path)
{
    const struct options given = {
        .path = path, .interval_seconds = 1, .full_hours = 24, .minute_days = 7};
    struct writing writing = {.options = given};

    open_for_writing(&writing);
    if (store_close(writing.store) < 0)
        fail(path, "cannot be closed");
}

static void check_reader(struct store_reader *reader, int r, const char *what)
{
    if (r < 0)
        fail(what, store_reader_error(reader));
}

/* Reads all snapshots, some per query. Snapshots of the same time may be split between two queries,
 * and are then not checked. */
static int64_t check_snapshots(struct store_reader *reader)
{
    struct snapshot_list list = {0};
    double since = 0;
    int64_t count = 0;
    const char *why;

    do {
        check_reader(reader, store_read_snapshots(reader, since, 100, &list), "snapshots");
        for (size_t i = 0; i < list.count; i++) {
            const struct snapshot *snapshot = list.items[i];
            bool is_ours = snapshot->host && strcmp(snapshot->host, SYNTHETIC_HOST) == 0;
            bool is_minute = snapshot->resolution_seconds == 60;
            if (is_ours && !is_minute && !synthetic_snapshot_is_whole(snapshot, &why)) {
                fprintf(stderr, "snapshot %" PRId64 ", tick %" PRId64 ": ", snapshot->id,
                        snapshot->running_jobs);
                fail("not whole", why);
            }
            since = nextafter(snapshot->timestamp, INFINITY);
        }
        count += (int64_t)list.count;
        bool is_last = list.count < 100;
        snapshot_list_done(&list);
        if (is_last)
            return count;
    } while (true);
}

static int64_t check_jobs(struct store_reader *reader, struct arena *arena)
{
    const struct job_filter all = JOB_FILTER_ALL;
    struct event_filter of_run = EVENT_FILTER_ALL;
    struct process_event_list events;
    struct sheet_list sheets;
    struct gap_list gaps;
    struct job_list jobs;
    struct job job;

    check_reader(reader, store_read_jobs(reader, &all, arena, &jobs), "jobs");
    for (size_t i = 0; i < jobs.count; i++) {
        const char *run_id = of_run.run_id = jobs.items[i].run_id;
        check_reader(reader, store_find_job(reader, run_id, arena, &job), "a job");
        check_reader(reader, store_read_events(reader, &of_run, arena, &events), "events");
        check_reader(reader, store_read_sheets(reader, run_id, arena, &sheets), "sheets");
        check_reader(reader, store_read_gaps(reader, run_id, 0, INFINITY, arena, &gaps), "gaps");
    }
    return (int64_t)jobs.count;
}

static int check_all(int argc, char **argv)
{
    struct options options = parse_options(argc, argv);
    struct arena arena = {0};
    struct store_reader *reader;
    struct store_error error;
    struct machine_use use;

    open_and_close(options.path);
    if (store_reader_open(options.path, &reader, &error) < 0)
        fail("cannot read", error.text);
    printf("SNAPSHOTS %" PRId64 "\n", check_snapshots(reader));
    printf("JOBS %" PRId64 "\n", check_jobs(reader, &arena));
    check_reader(reader, store_read_machine(reader, 0, INFINITY, 5, &arena, &use), "the machine");
    store_reader_close(reader);
    arena_done(&arena);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } verbs[] = {{"write", write_all}, {"queue", queue_all}, {"check", check_all}};

    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGTERM, on_terminate);
    for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(verbs); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    fail("usage", "store-driver write|queue|check PATH [OPTION…]");
}
