/* Retention: minutes replace samples and are deleted later, without a gap or an overlap, wherever
 * it is interrupted. Other data has limits of its own, and the file stops growing. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/text.h"
#include "base/vec.h"
#include "store-world.h"

#define HOUR 3600.0
#define DAY  86400.0

static int64_t minute_of(const struct snapshot *snapshot)
{
    return (int64_t)floor(snapshot->timestamp / 60);
}

/* All tables except SQLite's own and `upkeep`. */
static sqlite3_stmt *list_tables(sqlite3 *handle)
{
    sqlite3_stmt *tables = NULL;

    assert_int_equal(sqlite3_prepare_v2(handle,
                                        "SELECT name FROM sqlite_master WHERE type = 'table' AND"
                                        " name NOT LIKE 'sqlite_%' AND name <> 'upkeep'"
                                        " ORDER BY name",
                                        -1, &tables, NULL),
                     SQLITE_OK);
    return tables;
}

/* ---- checks of the stored data ---- */

static bool has_pid(const struct snapshot *snapshot, int64_t pid)
{
    for (size_t i = 0; i < snapshot->processes.count; i++)
        if (snapshot->processes.items[i].pid == pid)
            return true;
    return false;
}

/* A minute has exactly the processes of its ticks; returns the number of its ticks. */
static size_t check_minute(const struct written *written, size_t first,
                           const struct snapshot *found)
{
    size_t count = 0;

    while (first + count < written->count &&
           minute_of(written->items[first + count]) == minute_of(written->items[first]))
        count++;
    assert_true(fabs(found->timestamp - written->items[first + count - 1]->timestamp) < 0.001);
    for (int64_t pid = 100; pid < 100 + WORLD_PIDS; pid++) {
        bool was_there = false;
        for (size_t i = first; i < first + count; i++)
            was_there |= has_pid(written->items[i], pid);
        if (was_there != has_pid(found, pid))
            fail_msg("pid %d at tick %zu", (int)pid, first);
    }
    return count;
}

struct shown {
    size_t minutes;
    size_t samples;
    size_t first; /* of what was written */
};

/* Everything from some snapshot on is stored once: first minutes, then samples. */
static struct shown check_shown(const struct store_fixture *fixture, const struct written *written)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct snapshot_list list = {0};
    struct shown shown = {0};

    assert_int_equal(store_read_snapshots(reader, 0, 100000, &list), 0);
    if (list.count)
        while (minute_of(written->items[shown.first]) < minute_of(list.items[0]))
            shown.first++;
    else
        shown.first = written->count;
    size_t at = shown.first;
    for (size_t i = 0; i < list.count; i++) {
        assert_true(at < written->count);
        if (list.items[i]->resolution_seconds == 60) {
            assert_int_equal(shown.samples, 0);
            at += check_minute(written, at, list.items[i]);
            shown.minutes++;
        } else {
            assert_same_snapshot(written->items[at], list.items[i], at);
            at++;
            shown.samples++;
        }
    }
    assert_int_equal(at, written->count);
    snapshot_list_done(&list);
    return shown;
}

/* Six minutes in full, a quarter of an hour in all. */
static void set_short_limits(struct store_fixture *fixture)
{
    fixture->options.retention.full_resolution_hours = 360 / HOUR;
    fixture->options.retention.downsampled_days = 900 / DAY;
}

static void check_ages(const struct written *written, const struct shown *shown, double now)
{
    /* The first sample is in the first minute that had not ended before the limit, or was not
     * folded yet. */
    size_t first_sample = written->count - shown->samples;
    const double fold = 61 * 9;

    if (shown->minutes)
        assert_in_range(now - written->items[first_sample - 1]->timestamp, 360, 1e6);
    assert_in_range(now - written->items[first_sample]->timestamp, 0, 360 + 60 + fold);
    assert_in_range(now - written->items[shown->first]->timestamp, 0, 900 + 60 + fold);
}

static void test_samples_become_minutes(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct shown shown = {0};
    struct world world;

    set_short_limits(fixture);
    world_init(&world, 61);
    struct store *store = fixture_open(fixture);
    for (size_t i = 1; i <= 500; i++) { /* 40 minutes */
        write_next(store, &world, &written);
        if (i % 50)
            continue;
        assert_int_equal(store_retain(store, world.now), 0);
        shown = check_shown(fixture, &written);
        check_ages(&written, &shown, world.now);
    }
    assert_in_range(shown.minutes, 1, 20);
    assert_in_range(shown.first, 100, 450);

    /* the session has ended; time passes */
    assert_int_equal(store_close(store), 0);
    check_shown(fixture, &written);
    store = fixture_open(fixture);
    assert_int_equal(store_retain(store, world.now + 200), 0);
    struct shown later = check_shown(fixture, &written);
    assert_true(later.first > shown.first && later.samples < shown.samples && later.samples > 0);
    assert_int_equal(store_retain(store, world.now + 500), 0);
    later = check_shown(fixture, &written);
    assert_int_equal(later.samples, 0);
    assert_in_range(later.minutes, 4, 12);
    assert_int_equal(store_retain(store, world.now + 1000), 0);
    later = check_shown(fixture, &written);
    assert_int_equal(later.minutes + later.samples, 0);
    assert_int_equal(store_close(store), 0);
    written_done(&written);
    world_done(&world);
}

/* No table keeps expired rows, except those with limits of their own. */
static void check_empty(const struct store_fixture *fixture)
{
    sqlite3 *handle = fixture_sqlite(fixture);
    sqlite3_stmt *tables = list_tables(handle);

    while (sqlite3_step(tables) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(tables, 0);
        char sql[96];
        snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", name);
        if (strcmp(name, "sessions") != 0 && strcmp(name, "jobs") != 0 &&
            strcmp(name, "sheets") != 0 && ask_int(handle, sql) != 0)
            fail_msg("%s has rows", name);
    }
    sqlite3_finalize(tables);
    sqlite3_close(handle);
}

static void test_no_rows_are_left(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct world world;

    world_init(&world, 62);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < 200; i++)
        write_next(store, &world, &written);
    assert_int_equal(store_close(store), 0);
    store = fixture_open(fixture);
    assert_int_equal(store_retain(store, world.now + 25 * HOUR), 0);
    struct shown shown = check_shown(fixture, &written);
    assert_int_equal(shown.first + shown.samples, 0);
    assert_int_equal(store_retain(store, world.now + 31 * DAY), 0);
    check_empty(fixture);
    /* the sessions go with the jobs */
    assert_int_equal(store_retain(store, world.now + 400 * DAY), 0);
    sqlite3 *handle = fixture_sqlite(fixture);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM sessions"), 1);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM jobs WHERE outcome <> 'running'"), 0);
    sqlite3_close(handle);
    assert_int_equal(store_close(store), 0);
    written_done(&written);
    world_done(&world);
}

/* ---- clock errors ---- */

/* The clock was ahead when the session began, and was corrected. */
static void test_session_from_the_future(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct world world;

    world_init(&world, 63);
    world.now = 1500000000.125;
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < 200; i++)
        write_next(store, &world, &written);
    assert_int_equal(store_retain(store, world.now + 25 * HOUR), 0);
    struct shown shown = check_shown(fixture, &written);
    assert_in_range(shown.minutes, 5, 30);
    assert_in_range(shown.samples, 1, 75); /* what is not folded yet */
    assert_int_equal(store_close(store), 0);
    written_done(&written);
    world_done(&world);
}

/* Timestamps run backwards; each snapshot is still visible once, as a sample or in one minute. */
static void test_clock_set_back(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct world world;
    static const char shown[] = "SELECT COALESCE(sum(COALESCE(n.to_tick, n.tick) - n.tick + 1), 0)"
                                " FROM snapshots s JOIN snap n ON n.id = s.id";

    set_short_limits(fixture);
    world_init(&world, 66);
    struct store *store = fixture_open(fixture);
    sqlite3 *handle = fixture_sqlite(fixture);
    for (size_t i = 1; i <= 300; i++) {
        write_next(store, &world, &written);
        if (i % 80 == 0)
            world.now -= 400;
        if (i % 20 == 0)
            assert_int_equal(store_retain(store, world.now), 0);
        /* from the last one backwards without a gap */
        int64_t count = ask_int(handle, shown);
        assert_in_range(count, i < 60 ? i : 60, i);
        assert_int_equal(ask_int(handle, "SELECT max(tick) - min(tick) + 1 FROM snapshots"), count);
        assert_int_equal(ask_int(handle, "SELECT max(tick) FROM snapshots"), i);
    }
    sqlite3_close(handle);
    assert_int_equal(store_close(store), 0);
    written_done(&written);
    world_done(&world);
}

/* A limit shorter than the time between two folds. */
static void test_unfolded_samples_are_kept(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct world world;

    fixture->options.retention.full_resolution_hours = 0;
    world_init(&world, 64);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < 150; i++) {
        write_next(store, &world, &written);
        world.now += 20;
        assert_int_equal(store_retain(store, world.now), 0);
        if (i % 10 == 9)
            check_shown(fixture, &written);
    }
    struct shown shown = check_shown(fixture, &written);
    assert_in_range(shown.samples, 1, 66);
    assert_in_range(shown.minutes, 20, 100);
    assert_int_equal(store_close(store), 0);
    written_done(&written);
    world_done(&world);
}

/* ---- interruption ---- */

static long stop_after; /* answers; < 0: never */

static bool stop_now(void *context _unused_)
{
    return stop_after >= 0 && stop_after-- == 0;
}

static void copy_database(const struct store_fixture *from, const struct store_fixture *to)
{
    char command[512];

    snprintf(command, sizeof(command), "cp '%s' '%s' && rm -f '%s-wal' '%s-shm'", from->path,
             to->path, to->path, to->path);
    assert_int_equal(system(command), 0);
}

static void dump_table(sqlite3 *handle, const char *name, struct text *into)
{
    /* the writer that ran retention has a session, too */
    const char *condition = strcmp(name, "sessions") == 0 ? " WHERE id = 1" : "";
    sqlite3_stmt *rows = NULL;
    char sql[128];

    snprintf(sql, sizeof(sql), "SELECT * FROM %s%s ORDER BY 1, 2", name, condition);
    if (sqlite3_prepare_v2(handle, sql, -1, &rows, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(handle));
    text_printf(into, "%s:\n", name);
    while (sqlite3_step(rows) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(rows); i++) {
            const unsigned char *value = sqlite3_column_text(rows, i);
            text_printf(into, "%s|", value ? (const char *)value : "-");
        }
        text_append_char(into, '\n');
    }
    sqlite3_finalize(rows);
}

/* All stored data except `upkeep`. */
static void dump(const struct store_fixture *fixture, struct text *into)
{
    sqlite3 *handle = fixture_sqlite(fixture);
    sqlite3_stmt *tables = list_tables(handle);

    text_reset(into);
    while (sqlite3_step(tables) == SQLITE_ROW)
        dump_table(handle, (const char *)sqlite3_column_text(tables, 0), into);
    sqlite3_finalize(tables);
    sqlite3_close(handle);
}

static void write_some_of_all(struct store *store, struct world *world)
{
    struct process_event events[20];
    struct gap gaps[10];

    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        random_event(&world->random, &world->arena, &events[i]);
        events[i].timestamp = world->now - (double)i * 10 * DAY;
        events[i].run_id = NULL;
    }
    for (size_t i = 0; i < ARRAY_SIZE(gaps); i++) {
        random_record(&world->random, &gap_record, &world->arena, &gaps[i]);
        gaps[i].timestamp = world->now - (double)i * 100 * DAY;
    }
    assert_int_equal(store_write_tick(store, &(struct tick){.events = {events, ARRAY_SIZE(events)},
                                                            .gaps = {gaps, ARRAY_SIZE(gaps)}}),
                     0);
    for (int i = 0; i < 6; i++) {
        struct anomaly anomaly;
        struct pattern pattern;
        char name[16];
        random_anomaly(&world->random, &world->arena, &anomaly);
        anomaly.timestamp = world->now - i * 100 * DAY;
        assert_int_equal(write_anomaly(store, &anomaly), 0);
        random_record(&world->random, &pattern_record, &world->arena, &pattern);
        snprintf(name, sizeof(name), "pattern %d", i);
        pattern.pattern_name = name;
        pattern.last_seen = world->now - i * 100 * DAY;
        assert_int_equal(write_pattern(store, &pattern), 0);
    }
}

static void test_interruption_at_any_point(void **state)
{
    struct store_fixture *fixture = *state, *copy;
    _cleanup_text_ struct text uncut = {0}, found = {0};
    struct written written = {0};
    struct world world;

    world_init(&world, 65);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < 400; i++)
        write_next(store, &world, &written);
    write_some_of_all(store, &world);
    assert_int_equal(store_close(store), 0);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_close(handle);

    set_short_limits(fixture);
    double now = world.now + 60;
    bool is_cut = true;
    long after = -1;
    for (; after <= 0 || is_cut; after++) {
        store_fixture_set_up((void **)&copy);
        copy_database(fixture, copy);
        copy->options.retention = fixture->options.retention;
        copy->options.should_stop = stop_now;
        store = fixture_open(copy);
        stop_after = after;
        int r = store_retain(store, now);
        is_cut = r == 1;
        assert_true(r == 0 || (r == 1 && after >= 0));
        stop_after = -1;
        if (after % 5 == 0)
            check_shown(copy, &written);
        if (is_cut)
            assert_int_equal(store_retain(store, now), 0);
        assert_int_equal(store_close(store), 0);
        dump(copy, after < 0 ? &uncut : &found);
        if (after >= 0)
            assert_string_equal(text_string(&uncut), text_string(&found));
        else
            assert_in_range(check_shown(copy, &written).first, 50, 350);
        store_fixture_tear_down((void **)&copy);
    }
    assert_true(uncut.length > 10000 && after > 20);
    written_done(&written);
    world_done(&world);
}

/* ---- limits by kind of data ---- */

static void put_job(struct store *store, const char *run_id, double ended_at)
{
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;
    struct sheet sheet;

    record_init(&job_record, &job);
    job.run_id = run_id;
    job.job_id = run_id;
    job.started_at = 1000;
    assert_int_equal(store_begin_job(store, &job, name), 0);
    record_init(&sheet_record, &sheet);
    sheet.run_id = run_id;
    sheet.sheet_num = 1;
    sheet.started_at = 1000;
    assert_int_equal(store_write_sheet(store, &sheet), 0);
    job.ended_at = ended_at;
    job.outcome = real_is_known(ended_at) ? OUTCOME_SUCCESS : OUTCOME_RUNNING;
    if (real_is_known(ended_at))
        assert_int_equal(store_finish_job(store, &job), 0);
}

static void test_limits(void **state)
{
    struct store_fixture *fixture = *state;
    double now = 1.9e9;
    struct store *store = fixture_open(fixture);

    put_job(store, "old", now - 365 * DAY - 1);
    put_job(store, "young", now - 365 * DAY + 1);
    put_job(store, "going on", REAL_UNKNOWN);
    for (int i = -1; i <= 1; i += 2) {
        struct process_event event;
        struct gap gap = {.kind = GAP_SUSPEND, .timestamp = now - 365 * DAY + i, .seconds = 1};
        struct anomaly anomaly;
        struct pattern pattern;

        init_event(&event);
        event.timestamp = now - 90 * DAY + i;
        event.pid = 1;
        event.event_type = EVENT_SPAWN;
        assert_int_equal(
            store_write_tick(store, &(struct tick){.events = {&event, 1}, .gaps = {&gap, 1}}), 0);
        init_anomaly(&anomaly);
        anomaly.timestamp = now - 365 * DAY + i;
        anomaly.anomaly_type = "memory_spike";
        assert_int_equal(write_anomaly(store, &anomaly), 0);
        record_init(&pattern_record, &pattern);
        pattern.pattern_type = "RESOURCE_ANOMALY";
        pattern.pattern_name = i < 0 ? "old" : "young";
        pattern.last_seen = now - 365 * DAY + i;
        assert_int_equal(write_pattern(store, &pattern), 0);
    }
    assert_int_equal(store_retain(store, now), 0);

    sqlite3 *handle = fixture_sqlite(fixture);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM jobs"), 2);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM jobs WHERE run_id = 'old'"), 0);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM sheets"), 2);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM sheets WHERE run_id = 'old'"), 0);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM process_events"), 1);
    assert_true(ask_real(handle, "SELECT timestamp FROM process_events") == now - 90 * DAY + 1);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM gaps"), 1);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM anomalies"), 1);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM patterns WHERE pattern_name = 'young'"),
                     1);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM patterns"), 1);
    sqlite3_close(handle);
    assert_int_equal(store_close(store), 0);
}

/* Rows that outlive their run do not become rows of another run. */
static void test_ids_are_not_reused(void **state)
{
    struct store_fixture *fixture = *state;
    const struct event_filter all = EVENT_FILTER_ALL;
    struct process_event_list found = {0};
    struct arena arena = {0};
    struct process_event event;
    double now = 1.9e9;

    fixture->options.retention.jobs_days = 1;
    struct store *store = fixture_open(fixture);
    put_job(store, "old", now - 2 * DAY);
    init_event(&event);
    event.timestamp = now - 2 * DAY;
    event.pid = 1;
    event.event_type = EVENT_SPAWN;
    event.run_id = event.job_id = "old";
    assert_int_equal(store_write_tick(store, &(struct tick){.events = {&event, 1}}), 0);
    assert_int_equal(store_retain(store, now), 0);
    put_job(store, "new", now);
    struct store_reader *reader = fixture_reader(fixture);
    assert_int_equal(store_read_events(reader, &all, &arena, &found), 0);
    assert_int_equal(found.count, 1);
    assert_null(found.items[0].job_id);
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
}

static void test_retained_lately(void **state)
{
    struct store *store = fixture_open(*state);

    assert_false(store_retained_lately(store, 1e9));
    assert_int_equal(store_retain(store, 1e9), 0);
    assert_true(store_retained_lately(store, 1e9));
    assert_true(store_retained_lately(store, 1e9 + 3599));
    assert_false(store_retained_lately(store, 1e9 + 3601));
    assert_false(store_retained_lately(store, 1e9 - 3601)); /* the clock was set back */
    assert_int_equal(store_close(store), 0);
}

/* ---- the file ---- */

/* A small machine: a few idle processes, a busy one, and a new one every hour. */
static void write_small(struct store *store, double now, uint64_t tick)
{
    struct snapshot *snapshot = snapshot_new();
    struct process_metric processes[5];
    char command[40];

    snprintf(command, sizeof(command), "backup %llu", (unsigned long long)tick / 20);
    for (size_t i = 0; i < ARRAY_SIZE(processes); i++) {
        record_init(&process_metric_record, &processes[i]);
        processes[i].pid = (int64_t)i + 1;
        processes[i].command = i == 4 ? command : "sleep infinity";
        processes[i].start_ticks = i == 4 ? tick / 20 : 1;
        processes[i].rss_mb = i == 3 ? (double)(tick % 97) : 5;
        processes[i].state = 'S';
    }
    snapshot->timestamp = now;
    snapshot->id = snapshot_id_next(0, now, 1);
    snapshot->processes.items = processes;
    snapshot->processes.count = ARRAY_SIZE(processes);
    snapshot->load_avg_1 = (double)(tick % 31);
    struct process_event event;
    init_event(&event);
    event.timestamp = now;
    event.pid = 5;
    event.event_type = EVENT_SPAWN;
    event.command = command;
    assert_int_equal(
        store_write_tick(store, &(struct tick){.snapshot = snapshot, .events = {&event, 1}}), 0);
    snapshot_free(snapshot);
}

#define DAYS          14
#define TICKS_PER_DAY 240

static void test_file_size_is_bounded(void **state)
{
    struct store_fixture *fixture = *state;
    double start = WORLD_START, now = start;
    int64_t pages[DAYS], texts[DAYS];
    uint64_t tick = 0;

    fixture->options.retention = (struct retention_config){
        .full_resolution_hours = 24, .downsampled_days = 3, .events_days = 2, .jobs_days = 4};
    struct store *store = fixture_open(fixture);
    sqlite3 *handle = fixture_sqlite(fixture);
    for (size_t day = 0; day < DAYS; day++) {
        for (; tick < (day + 1) * TICKS_PER_DAY; tick++) {
            now = start + (double)tick * DAY / TICKS_PER_DAY;
            write_small(store, now, tick);
            if (tick % 60 == 0)
                assert_int_equal(store_retain(store, now), 0);
        }
        pages[day] = ask_int(handle, "PRAGMA page_count");
        texts[day] = ask_int(handle, "SELECT count(*) FROM text");
    }
    for (size_t day = 6; day < DAYS; day++) {
        assert_in_range(pages[day], 1, pages[5] + pages[5] / 8);
        /* about one an hour for three days, and one until the next sweep */
        assert_in_range(texts[day], 1, 5 * TICKS_PER_DAY / 20 + 2);
    }
    /* and the file shrinks when less is kept */
    assert_int_equal(store_retain(store, now + 40 * DAY), 0);
    assert_in_range(ask_int(handle, "PRAGMA page_count"), 1, pages[5] / 2);
    sqlite3_close(handle);
    assert_int_equal(store_close(store), 0);
}

/* Releasing pages ends even if the file cannot shrink. */
static void test_file_without_incremental_vacuum(void **state)
{
    struct store_fixture *fixture = *state;
    double now = WORLD_START;

    assert_int_equal(store_close(fixture_open(fixture)), 0);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = 0; VACUUM");
    assert_int_equal(ask_int(handle, "PRAGMA auto_vacuum"), 0);
    sqlite3_close(handle);
    struct store *store = fixture_open(fixture);
    for (uint64_t tick = 0; tick < 1000; tick++)
        write_small(store, now + (double)tick, tick);
    assert_int_equal(store_close(store), 0);
    store = fixture_open(fixture);
    alarm(60);
    assert_int_equal(store_retain(store, now + 400 * DAY), 0);
    alarm(0);
    assert_int_equal(store_close(store), 0);
}

static void check_ballast(const struct store_fixture *fixture, bool is_there)
{
    char path[128];
    struct stat st;

    snprintf(path, sizeof(path), "%s-ballast", fixture->path);
    assert_int_equal(stat(path, &st), is_there ? 0 : -1);
    if (!is_there)
        return;
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(st.st_size >= 1 << 20 && st.st_blocks >= st.st_size / 512);
    assert_int_equal(unlink(path), 0);
}

static void test_ballast_is_recreated(void **state)
{
    struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    char path[128];
    struct stat st;

    check_ballast(fixture, true);
    write_small(store, WORLD_START, 1);
    check_ballast(fixture, false);
    assert_int_equal(store_make_room(store, WORLD_START), 0);
    check_ballast(fixture, true);
    snprintf(path, sizeof(path), "%s-wal", fixture->path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0); /* the log is truncated */
    assert_int_equal(store_retain(store, WORLD_START), 0);
    check_ballast(fixture, true);
    assert_int_equal(store_close(store), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_samples_become_minutes),
        T(test_no_rows_are_left),
        T(test_session_from_the_future),
        T(test_clock_set_back),
        T(test_unfolded_samples_are_kept),
        T(test_interruption_at_any_point),
        T(test_limits),
        T(test_ids_are_not_reused),
        T(test_retained_lately),
        T(test_file_size_is_bounded),
        T(test_file_without_incremental_vacuum),
        T(test_ballast_is_recreated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
