/* Each allocation of the store fails once, and then with all that follow; so do some of SQLite's.
 * Each time the call returns an error, nothing crashes or leaks (under ASan), the next call works,
 * and acknowledged data is stored completely. Linked with -Wl,--wrap for the allocators. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "failing-allocator.h"
#include "store-world.h"

/* ---- allocators that fail ---- */

static sqlite3_mem_methods real;

static void *sqlite_malloc(int size)
{
    return fails_of(true) ? NULL : real.xMalloc(size);
}

static void *sqlite_realloc(void *pointer, int size)
{
    return fails_of(true) ? NULL : real.xRealloc(pointer, size);
}

static int set_up_sqlite(void **state _unused_)
{
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real) != SQLITE_OK)
        return -1;
    sqlite3_mem_methods failing = real;
    failing.xMalloc = sqlite_malloc;
    failing.xRealloc = sqlite_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0); /* all of them */
    return 0;
}

/* ---- operations ---- */

struct scene {
    struct store_fixture *fixture;
    struct world world;
    struct store *store;
    struct snapshot *written[2000];
    size_t count;
    int64_t number; /* of jobs and patterns */
};

typedef int act(struct scene *scene);

static int open_and_close(struct scene *scene)
{
    struct store_error error = {0};
    struct store *store = NULL;

    int r = store_open(&scene->fixture->options, &store, &error);
    if (r < 0 && !*error.text)
        fail_msg("an error without words");
    if (r < 0)
        return r;
    bool was_failing = is_failing;
    is_failing = false;
    assert_int_equal(store_close(store), 0);
    is_failing = was_failing;
    return 0;
}

static int make_and_close(struct scene *scene)
{
    unlink(scene->fixture->path);
    fixture_remove_sides(scene->fixture);
    return open_and_close(scene);
}

static int write_tick(struct scene *scene)
{
    bool was_failing = is_failing;

    is_failing = false;
    struct snapshot *snapshot = world_tick(&scene->world);
    struct gap gap = {.kind = GAP_SUSPEND, .timestamp = scene->world.now, .reason = "asleep"};
    struct process_event event;
    random_event(&scene->world.random, &snapshot->arena, &event);
    event.timestamp = scene->world.now;
    event.command = "login --password=***";
    event.run_id = scene->world.runs[0].run_id;
    event.job_id = scene->world.runs[0].job_id;
    struct anomaly anomaly;
    init_anomaly(&anomaly);
    anomaly.timestamp = scene->world.now;
    anomaly.anomaly_type = "memory_spike";
    anomaly.pid = event.pid;
    anomaly.description = "login --password=*** grew";
    anomaly.is_opening = true;
    is_failing = was_failing;
    int r = store_write_tick(scene->store, &(struct tick){.snapshot = snapshot,
                                                          .events = {&event, 1},
                                                          .gaps = {&gap, 1},
                                                          .anomalies = {&anomaly, 1}});
    is_failing = false;
    if (r == 0)
        scene->written[scene->count++] = snapshot;
    else
        snapshot_free(snapshot);
    return r;
}

static int write_job(struct scene *scene)
{
    char run_id[32], name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    snprintf(run_id, sizeof(run_id), "run-%lld", (long long)++scene->number);
    record_init(&job_record, &job);
    job.run_id = run_id;
    job.job_id = "build";
    job.command = "make --password=x";
    struct tally calls[] = {{"read", 5}, {"write", 6}};
    job.profile.syscall_counts = (struct tally_list){calls, 2};
    struct sheet sheet;
    record_init(&sheet_record, &sheet);
    sheet.run_id = run_id;
    sheet.sheet_num = 3;
    sheet.name = "third";
    int r = store_begin_job(scene->store, &job, name);
    if (r == 0)
        r = store_write_sheet(scene->store, &sheet);
    job.outcome = OUTCOME_SUCCESS;
    job.ended_at = 5;
    if (r == 0)
        r = store_finish_job(scene->store, &job);
    return r;
}

/* Another session takes a run over, and this one takes it back after the other has ended. */
static int take_over(struct scene *scene)
{
    struct store *another = NULL, *aside = scene->store;
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    bool was_failing = is_failing;
    struct job job;

    record_init(&job_record, &job);
    job.run_id = scene->world.runs[0].run_id;
    job.job_id = scene->world.runs[0].job_id;
    job.started_at = 4;
    job.command = "make --password=x";
    is_failing = false;
    /* A transaction that could not be rolled back still locks the database. */
    assert_int_equal(write_tick(scene), 0);
    scene->store = another = fixture_open(scene->fixture);
    assert_int_equal(store_begin_job(another, &job, name), 0);
    assert_int_equal(write_tick(scene), 0);
    assert_int_equal(store_close(another), 0);
    scene->store = aside;
    is_failing = was_failing;
    int r = store_begin_job(scene->store, &job, name);
    job.profile.cpu_seconds = 1;
    if (r == 0)
        r = store_finish_job(scene->store, &job);
    return r;
}

static int read_orphaned(struct scene *scene)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = NULL;
    const struct store_options *options = &scene->fixture->options;
    struct orphaned_run_list orphaned = {0};
    struct store_error error = {0};
    struct arena arena = {0};

    int r = store_reader_open(scene->fixture->path, &reader, &error);
    if (r == 0)
        r = store_read_orphaned(reader, options->host, options->boot_id, &arena, &orphaned);
    arena_done(&arena);
    return r;
}

static int configure_and_write(struct scene *scene)
{
    store_configure(scene->store, &scene->fixture->options.retention);
    return write_tick(scene);
}

static int write_findings(struct scene *scene)
{
    const char *tags[] = {"job:build", "host:a"};
    char name[40];

    snprintf(name, sizeof(name), "pattern %lld", (long long)++scene->number);
    struct anomaly anomaly;
    init_anomaly(&anomaly);
    anomaly.timestamp = (double)scene->number;
    anomaly.anomaly_type = "runaway";
    anomaly.description = "cp --password=x";
    anomaly.run_id = scene->world.runs[0].run_id;
    anomaly.is_opening = true;
    struct pattern pattern;
    record_init(&pattern_record, &pattern);
    pattern.pattern_type = "RESOURCE_ANOMALY";
    pattern.pattern_name = name;
    pattern.context_tags = (struct text_list){tags, 2};
    int r = write_anomaly(scene->store, &anomaly);
    anomaly.cleared_at = (double)scene->number + 1;
    if (r == 0)
        r = write_anomaly(scene->store, &anomaly);
    if (r == 0)
        r = store_renew_patterns(scene->store, "RESOURCE_CORRELATION",
                                 &(struct pattern_list){&pattern, 1});
    return r;
}

/* A session with some data. */
static struct store *open_another(struct scene *scene)
{
    struct store *aside = scene->store;

    scene->store = fixture_open(scene->fixture);
    assert_int_equal(write_tick(scene), 0);
    struct store *another = scene->store;
    scene->store = aside;
    return another;
}

static int retain(struct scene *scene)
{
    bool was_failing = is_failing;

    is_failing = false;
    assert_int_equal(store_close(open_another(scene)), 0);
    is_failing = was_failing;
    return store_retain(scene->store, scene->world.now + 100000);
}

static int read_all(struct scene *scene)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = NULL;
    struct store_error error = {0};
    struct arena arena = {0};
    struct snapshot_list snapshots = {0};
    struct process_event_list events;
    struct process_point_list points;
    struct anomaly_list anomalies;
    struct machine_use use;
    struct job_list jobs;
    struct gap_list gaps;
    struct job job;
    const struct event_filter all_events = EVENT_FILTER_ALL;
    const struct job_filter all_jobs = JOB_FILTER_ALL;

    int r = store_reader_open(scene->fixture->path, &reader, &error);
    if (r == 0)
        r = store_read_snapshots(reader, 0, 3, &snapshots);
    if (r == 0)
        r = store_read_process(reader, 103, REAL_UNKNOWN, 0, 3, &arena, &points);
    if (r == 0)
        r = store_read_events(reader, &all_events, &arena, &events);
    if (r == 0)
        r = store_read_jobs(reader, &all_jobs, &arena, &jobs);
    if (r == 0)
        r = store_find_job(reader, "build", &arena, &job);
    if (r == 0)
        r = store_read_anomalies(reader, NULL, REAL_UNKNOWN, REAL_UNKNOWN, &arena, &anomalies);
    if (r == 0)
        r = store_read_gaps(reader, NULL, REAL_UNKNOWN, REAL_UNKNOWN, &arena, &gaps);
    if (r == 0)
        r = store_read_machine(reader, 0, 8e9, 5, &arena, &use);
    snapshot_list_done(&snapshots);
    arena_done(&arena);
    return r;
}

/* Ends a session with unfolded samples; the handle is freed in any case. */
static int close_session(struct scene *scene)
{
    bool was_failing = is_failing;

    is_failing = false;
    struct store *closing = open_another(scene);
    is_failing = was_failing;
    return store_close(closing);
}

/* ---- failing ---- */

struct plan {
    act *act;
    bool of_sqlite;
    long stride; /* distance between two allocations that fail */
    long sites;  /* the least number of allocations */
};

/* The current operation. */
static struct scene *played;
static const struct plan *played_plan;

static int act_and_check(void)
{
    long site = countdown;
    int r = played_plan->act(played);
    bool is_failed = has_failed();

    is_failing = false;
    if (r != 0 && r != -ENOMEM)
        fail_msg("site %ld: %d, %s", site, r, played->store ? store_error(played->store) : "");
    /* SQLite recovers from some failures. */
    if (is_failed && played_plan->act == write_tick)
        assert_int_equal(write_tick(played), 0);
    return r;
}

static void fail_all(struct scene *scene, const struct plan *plan, bool for_good)
{
    played = scene;
    played_plan = plan;
    is_others = plan->of_sqlite;
    fail_some_allocations(act_and_check, for_good, plan->stride, plan->sites);
    assert_int_equal(plan->act(scene), 0);
}

static int by_time(const void *a, const void *b)
{
    const struct snapshot *const *x = a, *const *y = b;
    return (*x)->timestamp < (*y)->timestamp ? -1 : 1;
}

/* All acknowledged data is stored. */
static void check_stored(struct scene *scene)
{
    struct snapshot_list found = {0};
    sqlite3 *handle = fixture_sqlite(scene->fixture);

    assert_int_equal(ask_int(handle, "SELECT count(*) FROM pragma_integrity_check"
                                     " WHERE integrity_check <> 'ok'"),
                     0);
    sqlite3_close(handle);
    struct store_reader *reader = fixture_reader(scene->fixture);
    assert_int_equal(store_read_snapshots(reader, 0, ARRAY_SIZE(scene->written), &found), 0);
    qsort(scene->written, scene->count, sizeof(scene->written[0]), by_time);
    assert_same_snapshots(scene->written, scene->count, &found);
    snapshot_list_done(&found);
    store_reader_close(reader);
}

static void play(const struct plan *plan, bool has_store)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    store_fixture_set_up((void **)&scene->fixture);
    if (plan->act == write_tick)
        scene->fixture->options.jsonl_path = scene->fixture->jsonl_path;
    if (plan->act == retain) {
        scene->fixture->options.retention.full_resolution_hours = 0;
        scene->fixture->options.retention.downsampled_days = 0;
    }
    world_init(&scene->world, 91);
    if (has_store) {
        scene->store = fixture_open(scene->fixture);
        for (size_t i = 0; i < 70; i++)
            assert_int_equal(write_tick(scene), 0);
        assert_int_equal(write_job(scene), 0);
    }
    fail_all(scene, plan, false);
    fail_all(scene, plan, true);
    if (plan->act != retain)
        check_stored(scene);
    if (has_store)
        assert_int_equal(store_close(scene->store), 0);
    if (plan->act != retain)
        check_stored(scene);
    for (size_t i = 0; i < scene->count; i++)
        snapshot_free(scene->written[i]);
    world_done(&scene->world);
    store_fixture_tear_down((void **)&scene->fixture);
    free(scene);
}

/* Only some of SQLite's thousands of allocations fail. */
#define T(name, has_store, sites, stride, sqlite_sites)                                            \
    static void test_##name(void **state _unused_)                                                 \
    {                                                                                              \
        play(&(struct plan){name, false, 1, sites}, has_store);                                    \
    }                                                                                              \
    static void test_sqlite_##name(void **state _unused_)                                          \
    {                                                                                              \
        play(&(struct plan){name, true, stride, sqlite_sites}, has_store);                         \
    }

T(make_and_close, false, 50, 97, 1000)
T(open_and_close, false, 20, 37, 500)
T(write_tick, true, 5, 1, 50)
T(write_job, true, 2, 7, 30)
T(write_findings, true, 2, 1, 5)
T(take_over, true, 5, 37, 50)
T(read_orphaned, true, 5, 53, 50)
T(configure_and_write, true, 5, 3, 50)
T(retain, true, 3, 59, 100)
T(read_all, true, 20, 149, 500)
T(close_session, true, 3, 23, 100)

int main(void)
{
#define BOTH(name) cmocka_unit_test(test_##name), cmocka_unit_test(test_sqlite_##name)
    const struct CMUnitTest tests[] = {
        BOTH(make_and_close), BOTH(open_and_close), BOTH(write_tick),    BOTH(write_job),
        BOTH(write_findings), BOTH(take_over),      BOTH(read_orphaned), BOTH(configure_and_write),
        BOTH(retain),         BOTH(read_all),       BOTH(close_session),
    };
    return cmocka_run_group_tests(tests, set_up_sqlite, NULL);
}
