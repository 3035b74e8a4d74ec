/* Errors: writes that fail half-way, and files that are foreign, damaged or of another version.
 * Stored data is kept; foreign files are not changed. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/text.h"
#include "store-world.h"
#include "store/schema.h"

#define TICKS 160

static void check_snapshots(const struct store_fixture *fixture, const struct written *written)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct snapshot_list found = {0};

    assert_int_equal(store_read_snapshots(reader, 0, TICKS + 2, &found), 0);
    assert_same_snapshots(written->items, written->count, &found);
    snapshot_list_done(&found);
}

static void check_intact(const struct store_fixture *fixture)
{
    sqlite3 *handle = fixture_sqlite(fixture);

    assert_int_equal(ask_int(handle, "SELECT count(*) FROM pragma_integrity_check"
                                     " WHERE integrity_check <> 'ok'"),
                     0);
    sqlite3_close(handle);
}

/* ---- writes that fail ---- */

static bool is_patient;

static bool should_stop(void *context _unused_)
{
    return !is_patient;
}

/* Every kind of write must return the same error. */
static void write_each(struct store *store, struct world *world, int expected)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = world_tick(world);
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;
    struct sheet sheet;
    struct anomaly anomaly;
    struct pattern pattern;

    record_init(&job_record, &job);
    job.run_id = job.job_id = "run";
    record_init(&sheet_record, &sheet);
    sheet.run_id = "run";
    sheet.sheet_num = 1;
    random_anomaly(&world->random, &world->arena, &anomaly);
    random_record(&world->random, &pattern_record, &world->arena, &pattern);
    assert_int_equal(store_write_tick(store, &(struct tick){.snapshot = snapshot}), expected);
    assert_int_equal(store_begin_job(store, &job, name), expected);
    assert_int_equal(store_write_sheet(store, &sheet), expected);
    job.outcome = OUTCOME_SUCCESS;
    assert_int_equal(store_finish_job(store, &job), expected);
    assert_int_equal(write_anomaly(store, &anomaly), expected);
    assert_int_equal(write_pattern(store, &pattern), expected);
}

static void test_database_locked_by_another(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct store *another = NULL;
    struct store_error error = {0};
    struct world world, nowhere;

    fixture->options.should_stop = should_stop;
    is_patient = true;
    world_init(&world, 71);
    world_init(&nowhere, 72);
    struct store *store = fixture_open(fixture);
    write_next(store, &world, &written);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "BEGIN IMMEDIATE");
    is_patient = false;
    write_each(store, &nowhere, -EBUSY);
    assert_int_equal(store_retain(store, world.now), 1); /* cut short */
    assert_non_null(strstr(store_error(store), fixture->path));
    assert_int_equal(store_open(&fixture->options, &another, &error), -EBUSY);
    assert_non_null(strstr(error.text, fixture->path));
    check_snapshots(fixture, &written); /* readers are not affected */
    run_sql(handle, "ROLLBACK");
    sqlite3_close(handle);

    for (size_t i = 0; i < 70; i++)
        write_next(store, &world, &written);
    check_snapshots(fixture, &written);
    is_patient = true;
    assert_int_equal(store_close(store), 0);
    check_snapshots(fixture, &written);
    written_done(&written);
    world_done(&world);
    world_done(&nowhere);
}

/* A tick whose last part cannot be stored leaves nothing behind. */
static void test_ticks_are_atomic(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct process_event events[3];
    struct world world;

    world_init(&world, 73);
    struct store *store = fixture_open(fixture);
    sqlite3 *handle = fixture_sqlite(fixture);
    for (size_t i = 0; i < TICKS; i++) {
        write_next(store, &world, &written);
        struct gap gap = {.kind = GAP_SUSPEND, .timestamp = world.now};
        for (size_t k = 0; k < ARRAY_SIZE(events); k++) {
            random_event(&world.random, &world.arena, &events[k]);
            events[k].run_id = k == 2 ? "a run whose number is longer than any can be" : "new";
        }
        struct tick tick = {.events = {events, 3}, .gaps = {&gap, 1}};
        if (i % 7 == 0)
            assert_int_equal(store_write_tick(store, &tick), -EINVAL);
    }
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM process_events"), 0);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM gaps"), 0);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM jobs WHERE run_id = 'new'"), 0);
    sqlite3_close(handle);
    check_snapshots(fixture, &written);
    assert_int_equal(store_close(store), 0);
    check_snapshots(fixture, &written);
    written_done(&written);
    world_done(&world);
}

static off_t size_of(const char *path, const char *suffix)
{
    char name[128];
    struct stat st;

    snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &st) < 0 ? 0 : st.st_size;
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Like a full disk: writes fail at varying positions. */
static void test_file_size_limit(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct world world;
    size_t failures = 0;

    signal(SIGXFSZ, SIG_IGN);
    world_init(&world, 74);
    struct store *store = fixture_open(fixture);
    while (written.count < TICKS) {
        write_next(store, &world, &written);
        if (written.count % 4)
            continue;
        struct snapshot *snapshot = world_tick(&world);
        limit_files(random_below(&world.random, (uint64_t)size_of(fixture->path, "-wal") + 30000));
        int r = store_write_tick(store, &(struct tick){.snapshot = snapshot});
        limit_files(RLIM_INFINITY);
        if (r == 0) {
            written_add(&written, snapshot);
            continue;
        }
        assert_true(r == -EIO || r == -ENOSPC);
        failures++;
        snapshot_free(snapshot);
    }
    assert_true(failures > 5);
    check_snapshots(fixture, &written);
    assert_int_equal(store_close(store), 0);
    check_snapshots(fixture, &written);
    check_intact(fixture);
    written_done(&written);
    world_done(&world);
}

/* ---- foreign and damaged files ---- */

static void read_file(const char *path, struct text *into)
{
    char bytes[4096];
    _cleanup_fclose_ FILE *file = fopen(path, "re");

    text_reset(into);
    assert_non_null(file);
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), file)) > 0;)
        text_append(into, bytes, n);
}

static void write_file(const char *path, const char *bytes, size_t length)
{
    _cleanup_fclose_ FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
}

/* The number of files in the directory. */
static size_t count_files(const struct store_fixture *fixture)
{
    DIR *dir = opendir(fixture->dir);
    size_t count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

/* Both a writer and a reader reject the file and do not change it. */
static void check_rejected(const struct store_fixture *fixture, int expected)
{
    _cleanup_text_ struct text before = {0}, after = {0};
    struct store *store = NULL;
    struct store_reader *reader = NULL;
    struct store_error error = {0};

    read_file(fixture->path, &before);
    int r = store_reader_open(fixture->path, &reader, &error);
    assert_int_equal(r, expected);
    assert_non_null(strstr(error.text, fixture->path));
    error = (struct store_error){0};
    r = store_open(&fixture->options, &store, &error);
    assert_int_equal(r, expected);
    assert_non_null(strstr(error.text, fixture->path));
    read_file(fixture->path, &after);
    assert_int_equal(before.length, after.length);
    assert_memory_equal(text_string(&before), text_string(&after), before.length);
}

/* A database with some data, in one file. */
static void make_database(const struct store_fixture *fixture, struct world *world,
                          struct written *written, size_t ticks)
{
    struct store *store = fixture_open(fixture);

    for (size_t i = 0; i < ticks; i++)
        write_next(store, world, written);
    assert_int_equal(store_close(store), 0);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_close(handle);
    fixture_remove_sides(fixture);
}

static void test_foreign_files_are_rejected(void **state)
{
    static const char letter[] = "Dear diary,\ntoday nothing was sampled.\n";
    struct store_fixture *fixture = *state;
    char long_letter[5000];

    write_file(fixture->path, letter, strlen(letter));
    check_rejected(fixture, -EBADMSG);
    assert_int_equal(count_files(fixture), 1);
    memset(long_letter, 'z', sizeof(long_letter));
    write_file(fixture->path, long_letter, sizeof(long_letter));
    check_rejected(fixture, -EBADMSG);
    memset(long_letter, 0, sizeof(long_letter));
    write_file(fixture->path, long_letter, sizeof(long_letter));
    check_rejected(fixture, -EBADMSG);

    unlink(fixture->path);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, sum REAL);"
                    "INSERT INTO accounts VALUES (1, 5)");
    check_rejected(fixture, -EBADMSG);
    run_sql(handle, "PRAGMA application_id = 12345");
    check_rejected(fixture, -EBADMSG);
    run_sql(handle, "PRAGMA journal_mode = WAL; UPDATE accounts SET sum = 6");
    check_rejected(fixture, -EBADMSG);
    assert_int_equal(ask_int(handle, "SELECT sum FROM accounts"), 6);
    sqlite3_close(handle);
    chmod(fixture->path, 0600);
    check_rejected(fixture, -EBADMSG);
}

static void test_missing_database(void **state)
{
    struct store_fixture *fixture = *state;
    struct store_reader *reader = NULL;
    struct store *store = NULL;
    struct store_error error = {0};

    assert_int_equal(store_reader_open(fixture->path, &reader, &error), -ENOENT);
    assert_non_null(strstr(error.text, fixture->path));
    assert_int_equal(count_files(fixture), 0);

    write_file(fixture->path, "", 0); /* as while another writer creates it */
    assert_int_equal(store_reader_open(fixture->path, &reader, &error), -ENOENT);
    assert_int_equal(size_of(fixture->path, ""), 0);
    assert_int_equal(store_close(fixture_open(fixture)), 0);
    store_reader_close(fixture_reader(fixture));

    struct store_options elsewhere = fixture->options;
    elsewhere.path = fixture->dir;
    error = (struct store_error){0};
    assert_true(store_open(&elsewhere, &store, &error) < 0);
    assert_non_null(strstr(error.text, fixture->dir));
    error = (struct store_error){0};
    assert_true(store_reader_open(fixture->dir, &reader, &error) < 0);
    assert_non_null(strstr(error.text, fixture->dir));
}

static void test_truncated_database(void **state)
{
    struct store_fixture *fixture = *state;
    _cleanup_text_ struct text whole = {0};
    struct written written = {0};
    struct world world;

    world_init(&world, 75);
    make_database(fixture, &world, &written, 20);
    read_file(fixture->path, &whole);
    for (size_t length = 1; length < whole.length;
         length += length < 120 ? 7 : 1 + random_below(&world.random, 4096)) {
        write_file(fixture->path, text_string(&whole), length);
        check_rejected(fixture, -EBADMSG);
    }
    write_file(fixture->path, text_string(&whole), whole.length - 1);
    check_rejected(fixture, -EBADMSG);
    write_file(fixture->path, text_string(&whole), whole.length);
    check_snapshots(fixture, &written);
    written_done(&written);
    world_done(&world);
}

static void test_newer_version_is_rejected(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct world world;

    world_init(&world, 76);
    make_database(fixture, &world, &written, 3);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_close(handle);
    fixture_remove_sides(fixture);
    check_rejected(fixture, -EPROTONOSUPPORT);
    assert_int_equal(count_files(fixture), 1);

    /* the same, with the change in the log only */
    handle = fixture_sqlite(fixture);
    run_sql(handle, "PRAGMA user_version = 2; PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    run_sql(handle, "PRAGMA user_version = 99");
    sqlite3_close(handle);
    check_rejected(fixture, -EPROTONOSUPPORT);
    written_done(&written);
    world_done(&world);
}

/* Calls every read function and ignores the results. */
static void read_everything(struct store_reader *reader)
{
    struct arena arena = {0};
    struct snapshot_list snapshots = {0};
    struct process_event_list events;
    struct process_point_list points;
    struct anomaly_list anomalies;
    struct pattern_list patterns;
    struct machine_use use;
    struct job_list jobs;
    struct gap_list gaps;
    const struct event_filter all_events = EVENT_FILTER_ALL;
    const struct job_filter all_jobs = JOB_FILTER_ALL;
    const int results[] = {
        store_read_snapshots(reader, 0, 1000, &snapshots),
        store_read_process(reader, 103, REAL_UNKNOWN, 0, 1000, &arena, &points),
        store_read_events(reader, &all_events, &arena, &events),
        store_read_jobs(reader, &all_jobs, &arena, &jobs),
        store_read_anomalies(reader, NULL, REAL_UNKNOWN, REAL_UNKNOWN, &arena, &anomalies),
        store_read_gaps(reader, NULL, REAL_UNKNOWN, REAL_UNKNOWN, &arena, &gaps),
        store_read_patterns(reader, &arena, &patterns),
        store_read_machine(reader, 0, 8e9, 5, &arena, &use),
    };

    for (size_t i = 0; i < ARRAY_SIZE(results); i++)
        if (results[i] != 0 && results[i] != -EBADMSG)
            fail_msg("question %zu: %d, %s", i, results[i], store_reader_error(reader));
    if (results[0] == 0)
        snapshot_list_done(&snapshots);
    arena_done(&arena);
}

/* Calls may succeed or fail, but must not crash. */
static void use_damaged(const struct store_fixture *fixture, struct world *world)
{
    _cleanup_text_ struct text before = {0}, after = {0};
    struct store_error error = {0};
    struct store_reader *reader = NULL;
    struct store *store = NULL;

    read_file(fixture->path, &before);
    int r = store_reader_open(fixture->path, &reader, &error);
    assert_true(r == 0 || (r == -EBADMSG && strstr(error.text, fixture->path)));
    if (r == 0)
        read_everything(reader);
    store_reader_close(reader);
    error = (struct store_error){0};
    r = store_open(&fixture->options, &store, &error);
    assert_true(r == 0 || (r == -EBADMSG && strstr(error.text, fixture->path)));
    if (r == 0) {
        _cleanup_(snapshot_freep) struct snapshot *snapshot = world_tick(world);
        r = store_write_tick(store, &(struct tick){.snapshot = snapshot});
        if (r != 0 && r != -EBADMSG)
            fail_msg("%d: %s", r, store_error(store));
        r = store_retain(store, world->now + 1e8);
        if (r != 0 && r != -EBADMSG)
            fail_msg("%d: %s", r, store_error(store));
        r = store_close(store);
        assert_true(r == 0 || r == -EBADMSG);
        return;
    }
    read_file(fixture->path, &after);
    assert_int_equal(before.length, after.length);
    assert_memory_equal(text_string(&before), text_string(&after), before.length);
}

static void test_damaged_pages(void **state)
{
    struct store_fixture *fixture = *state;
    _cleanup_text_ struct text whole = {0}, damaged = {0};
    struct written written = {0};
    struct world world;
    const size_t page = 4096;

    world_init(&world, 77);
    make_database(fixture, &world, &written, 70);
    read_file(fixture->path, &whole);
    for (size_t at = 0; at < whole.length; at += page) {
        text_reset(&damaged);
        text_append(&damaged, text_string(&whole), whole.length);
        for (size_t i = at ? 0 : 100; i < page; i++)
            damaged.bytes[at + i] = (char)random_next(&world.random);
        write_file(fixture->path, text_string(&damaged), damaged.length);
        fixture_remove_sides(fixture);
        use_damaged(fixture, &world);
    }
    /* all of it but the header */
    for (size_t i = 100; i < whole.length; i++)
        damaged.bytes[i] = (char)random_next(&world.random);
    memcpy(damaged.bytes, text_string(&whole), 100);
    write_file(fixture->path, text_string(&damaged), damaged.length);
    fixture_remove_sides(fixture);
    check_rejected(fixture, -EBADMSG);
    written_done(&written);
    world_done(&world);
}

/* ---- databases of older versions ---- */

static void test_older_version_is_migrated(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct store_reader *reader = NULL;
    struct store_error error = {0};
    struct world world;

    world_init(&world, 78);
    make_database(fixture, &world, &written, 70);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle,
            "DROP VIEW snapshots; DROP VIEW process_metrics; DROP VIEW process_events;" TO_VERSION_4
            "DROP INDEX anomalies_open; DROP TABLE turns; DROP TABLE folded_events;"
            "ALTER TABLE jobs DROP COLUMN chain;"
            "ALTER TABLE anomalies DROP COLUMN session;"
            "ALTER TABLE anomalies DROP COLUMN uid;"
            "ALTER TABLE snap DROP COLUMN collect_ms;"
            "ALTER TABLE proc DROP COLUMN uid;"
            "ALTER TABLE history DROP COLUMN vms_mb;"
            "ALTER TABLE jobs DROP COLUMN gap_seconds;"
            "ALTER TABLE jobs DROP COLUMN figures_tick;"
            "ALTER TABLE event DROP COLUMN is_step;"
            "CREATE VIEW snapshots AS SELECT 1;"
            "PRAGMA user_version = 0; PRAGMA wal_checkpoint(TRUNCATE)");
    sqlite3_close(handle);
    fixture_remove_sides(fixture);

    assert_int_equal(store_reader_open(fixture->path, &reader, &error), -EPROTONOSUPPORT);
    assert_non_null(strstr(error.text, "older"));
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < written.count; i++) {
        written.items[i]->collect_ms = REAL_UNKNOWN;
        for (size_t k = 0; k < written.items[i]->processes.count; k++) {
            written.items[i]->processes.items[k].uid = INT_UNKNOWN;
            written.items[i]->processes.items[k].vms_mb = REAL_UNKNOWN;
        }
    }
    check_snapshots(fixture, &written);
    for (size_t i = 0; i < 70; i++)
        write_next(store, &world, &written);
    check_snapshots(fixture, &written);
    handle = fixture_sqlite(fixture);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM snapshots"), 140);
    assert_true(ask_int(handle, "SELECT count(*) FROM process_metrics") > 140);
    assert_int_equal(ask_int(handle, "PRAGMA user_version"), SCHEMA_VERSION);
    sqlite3_close(handle);
    assert_int_equal(store_close(store), 0);
    written_done(&written);
    world_done(&world);
}

/* A reader leaves a database of version 0.1.0 as it is, and has no values of newer columns. */
static void test_first_version_is_read_in_place(void **state)
{
    struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    struct arena arena = {0};
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = "01970000-aaaa-7bbb-8ccc-ddddeeeeffff";
    job.job_id = "old";
    job.profile.processes = 7;
    job.profile.peak_processes = 3;
    job.profile.exactness.peak_processes = SAMPLED;
    assert_int_equal(store_begin_job(store, &job, name), 0);
    assert_int_equal(store_finish_job(store, &job), 0);
    assert_int_equal(store_close(store), 0);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, TO_VERSION_4);
    assert_int_equal(chmod(fixture->path, 0400), 0);

    struct store_reader *reader = fixture_reader(fixture);
    assert_int_equal(store_find_job(reader, "old", &arena, &job), 0);
    assert_int_equal(job.profile.processes, 7);
    assert_int_equal(job.profile.peak_processes, INT_UNKNOWN);
    assert_int_equal(job.profile.exactness.peak_processes, EXACTNESS_UNKNOWN);
    assert_int_equal(ask_int(handle, "PRAGMA user_version"), 4);
    store_reader_close(reader);
    sqlite3_close(handle);
    arena_done(&arena);
}

/* A failed migration changes nothing, and the error names the file and the reason. */
static void test_failed_migration(void **state)
{
    struct store_fixture *fixture = *state;
    struct store *store = NULL;
    struct store_error error = {0};

    assert_int_equal(store_close(fixture_open(fixture)), 0);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "PRAGMA user_version = 4"); /* its new columns exist already */
    sqlite3_close(handle);

    assert_true(store_open(&fixture->options, &store, &error) < 0);
    assert_non_null(strstr(error.text, fixture->path));
    assert_non_null(strstr(error.text, "duplicate column name: cpu_seconds"));
    handle = fixture_sqlite(fixture);
    assert_int_equal(ask_int(handle, "PRAGMA user_version"), 4);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM sqlite_master WHERE type = 'view'"), 3);
    sqlite3_close(handle);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_database_locked_by_another),
        T(test_ticks_are_atomic),
        T(test_file_size_limit),
        T(test_foreign_files_are_rejected),
        T(test_missing_database),
        T(test_truncated_database),
        T(test_newer_version_is_rejected),
        T(test_damaged_pages),
        T(test_older_version_is_migrated),
        T(test_first_version_is_read_in_place),
        T(test_failed_migration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
