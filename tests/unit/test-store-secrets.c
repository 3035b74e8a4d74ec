/* No secret reaches a file: not the database, not its log, not the JSONL log. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/text.h"
#include "store-world.h"

#define SECRET "hunter2-correct-horse"

static const char *const words[] = {"password", "token", "secret"};
static const struct text_list word_list = {.items = (const char **)(uintptr_t)words,
                                           .count = ARRAY_SIZE(words)};

static bool file_holds(const char *path, const char *wanted)
{
    char bytes[4096];
    _cleanup_text_ struct text text = {0};
    _cleanup_fclose_ FILE *file = fopen(path, "re");

    assert_non_null(file);
    for (size_t n; (n = fread(bytes, 1, sizeof(bytes), file)) > 0;)
        text_append(&text, bytes, n);
    return text.length && memmem(text.bytes, text.length, wanted, strlen(wanted));
}

/* The number of files in the directory that contain a text. */
static size_t count_holders(const struct store_fixture *fixture, const char *wanted)
{
    DIR *dir = opendir(fixture->dir);
    size_t count = 0;

    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[400];
        snprintf(path, sizeof(path), "%s/%s", fixture->dir, entry->d_name);
        count += entry->d_type == DT_REG && file_holds(path, wanted);
    }
    closedir(dir);
    return count;
}

static struct store *open_with_redaction(struct store_fixture *fixture)
{
    fixture->options.redact = &word_list;
    fixture->options.jsonl_path = fixture->jsonl_path;
    return fixture_open(fixture);
}

static struct snapshot *make_snapshot(struct world *world, const char *command)
{
    struct snapshot *snapshot = world_tick(world);

    for (size_t i = 0; i < snapshot->processes.count; i += 2)
        snapshot->processes.items[i].command = command;
    return snapshot;
}

static void write_all(struct store *store, struct world *world)
{
    static const char *const commands[] = {
        "curl --password=" SECRET " https://example.org",
        "curl --token " SECRET,
        "env API_SECRET=" SECRET " make",
        "wget https://user:" SECRET "@example.org/",
        "sh -c 'login {\"password\": \"" SECRET "\"}'",
        "PASSWORD=" SECRET, /* as the name of a program */
    };
    char name[JOB_ID_NUMBERED_MAX_BYTES];

    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        struct process_event event;
        struct anomaly anomaly;
        struct job job;
        char run_id[16];

        init_event(&event);
        event.timestamp = world->now;
        event.pid = 5;
        event.event_type = EVENT_EXEC;
        event.command = event.sender_command = event.details = commands[i];
        _cleanup_(snapshot_freep) struct snapshot *snapshot = make_snapshot(world, commands[i]);
        struct anomaly opening[2];
        for (size_t k = 0; k < ARRAY_SIZE(opening); k++) {
            init_anomaly(&opening[k]);
            opening[k].timestamp = world->now;
            opening[k].anomaly_type = "memory_spike";
            opening[k].description = commands[i];
            opening[k].is_opening = true;
        }
        opening[0].pid = event.pid;
        opening[1].pid = snapshot->processes.count ? snapshot->processes.items[0].pid : 1;
        assert_int_equal(store_write_tick(store, &(struct tick){.snapshot = snapshot,
                                                                .events = {&event, 1},
                                                                .anomalies = {opening, 2}}),
                         0);
        assert_int_equal(store_jsonl_error(store), 0);
        /* the snapshot in memory is redacted, too */
        for (size_t k = 0; k < snapshot->processes.count; k += 2)
            assert_null(strstr(snapshot->processes.items[k].command, SECRET));

        record_init(&job_record, &job);
        snprintf(run_id, sizeof(run_id), "run-%zu", i);
        job.run_id = job.job_id = run_id;
        job.command = job.cause = job.job_type = commands[i];
        assert_int_equal(store_begin_job(store, &job, name), 0);
        job.outcome = OUTCOME_FAILURE;
        assert_int_equal(store_finish_job(store, &job), 0);
        init_anomaly(&anomaly);
        anomaly.timestamp = world->now;
        anomaly.anomaly_type = "runaway";
        anomaly.run_id = run_id; /* the type of this run contains a secret, too */
        anomaly.is_opening = true;
        anomaly.description = commands[i];
        assert_int_equal(write_anomaly(store, &anomaly), 0);
    }
}

static void test_no_secret_reaches_a_file(void **state)
{
    struct store_fixture *fixture = *state;
    struct arena arena = {0};
    struct world world;
    struct job job;

    world_init(&world, 81);
    struct store *store = open_with_redaction(fixture);
    for (size_t i = 0; i < 30; i++)
        write_all(store, &world);
    assert_int_equal(count_holders(fixture, SECRET), 0);
    assert_true(file_holds(fixture->jsonl_path, "curl --password=***"));
    assert_int_equal(store_close(store), 0);
    assert_int_equal(count_holders(fixture, SECRET), 0);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_true(ask_int(handle, "SELECT count(*) FROM process_metrics"
                                " WHERE command LIKE 'curl --password=*** https:%'") > 5);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM event e JOIN text t ON t.id = e.command"
                                     " AND t.id = e.sender_command AND t.id = e.details"
                                     " WHERE t.value = 'curl --token ***'"),
                     30);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM patterns"
                                     " WHERE pattern_name = '[memory_spike] PASSWORD=***'"),
                     1);
    sqlite3_close(handle);
    assert_int_equal(count_holders(fixture, SECRET), 0);
    struct store_reader *reader = fixture_reader(fixture);
    assert_int_equal(store_find_job(reader, "run-1", &arena, &job), 0);
    assert_string_equal(job.command, "curl --token ***");
    assert_string_equal(job.cause, "curl --token ***");
    store_reader_close(reader);
    arena_done(&arena);
    world_done(&world);
}

/* Ticks that cannot be stored, and a pid that occurs twice. */
static void test_failed_ticks_and_duplicate_pids(void **state)
{
    static const char command[] = "curl --password=" SECRET;
    struct store_fixture *fixture = *state;
    struct world world;

    world_init(&world, 82);
    struct store *store = open_with_redaction(fixture);
    for (size_t i = 0; i < 40; i++) {
        struct process_metric processes[WORLD_PIDS + 1];
        _cleanup_(snapshot_freep) struct snapshot *snapshot = make_snapshot(&world, command);
        size_t count = snapshot->processes.count;
        if (count == 0)
            continue;
        memcpy(processes, snapshot->processes.items, count * sizeof(processes[0]));
        processes[count] = processes[0];
        snapshot->processes.items = processes;
        snapshot->processes.count = count + 1;
        if (i % 2) {
            processes[count].pid = 7;
            processes[count].run_id = "a run whose number is longer than any can be";
        }
        processes[count].command = command;
        assert_int_equal(store_write_tick(store, &(struct tick){.snapshot = snapshot}),
                         i % 2 ? -EINVAL : 0);
        if (i % 2 == 0)
            assert_int_equal(store_jsonl_error(store), 0);
    }
    assert_int_equal(count_holders(fixture, SECRET), 0);
    assert_int_equal(store_close(store), 0);
    assert_int_equal(count_holders(fixture, SECRET), 0);
    world_done(&world);
}

static void test_without_redaction(void **state)
{
    struct store_fixture *fixture = *state;
    struct world world;

    world_init(&world, 83);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < 20; i++) {
        _cleanup_(snapshot_freep) struct snapshot *snapshot =
            make_snapshot(&world, "curl --password=" SECRET);
        write_snapshot(store, snapshot);
    }
    assert_true(count_holders(fixture, SECRET) > 0);
    assert_int_equal(store_close(store), 0);
    world_done(&world);
}

/* For new processes and for those that were stored before. */
static void test_changed_redaction(void **state)
{
    struct store_fixture *fixture = *state;
    struct world world;

    fixture->options.jsonl_path = fixture->jsonl_path;
    world_init(&world, 84);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < 40; i++) {
        _cleanup_(snapshot_freep) struct snapshot *snapshot =
            make_snapshot(&world, "curl --password=" SECRET);
        if (i == 20) {
            assert_true(file_holds(fixture->jsonl_path, SECRET));
            assert_int_equal(unlink(fixture->jsonl_path), 0);
            store_configure(store, &word_list, &fixture->options.retention);
        }
        write_snapshot(store, snapshot);
    }
    assert_true(file_holds(fixture->jsonl_path, "curl --password=***"));
    assert_false(file_holds(fixture->jsonl_path, SECRET));
    sqlite3 *handle = fixture_sqlite(fixture);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM process_metrics m JOIN snapshots s"
                                     " ON s.id = m.snapshot_id WHERE s.tick > 20"
                                     " AND m.command LIKE '%" SECRET "%'"),
                     0);
    assert_true(ask_int(handle, "SELECT count(*) FROM process_metrics WHERE command LIKE '%***'") >
                20);
    sqlite3_close(handle);
    assert_int_equal(store_close(store), 0);
    world_done(&world);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_no_secret_reaches_a_file),
        T(test_failed_ticks_and_duplicate_pids),
        T(test_without_redaction),
        T(test_changed_redaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
