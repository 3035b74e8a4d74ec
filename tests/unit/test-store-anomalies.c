/* Anomalies of ticks, their patterns, and anomalies that are open when their writer ends. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/text.h"
#include "store-world.h"
#include "store/schema.h"

#define RUN "01900000-0000-7000-8000-00000000000a"

/* Two processes at the next tick. */
static struct snapshot *make_snapshot(void)
{
    static struct process_metric processes[2];
    struct snapshot *snapshot = snapshot_new();

    assert_non_null(snapshot);
    for (size_t i = 0; i < ARRAY_SIZE(processes); i++) {
        record_init(&process_metric_record, &processes[i]);
        processes[i].pid = 10 + (int64_t)i;
        processes[i].start_ticks = 100;
    }
    processes[0].command = "/usr/bin/python3 train.py";
    processes[1].command = "[kworker/u8:3-events]";
    snapshot->processes = (struct process_list){processes, ARRAY_SIZE(processes)};
    fixture_stamp(snapshot);
    return snapshot;
}

static int write_with(struct store *store, const struct anomaly *anomalies, size_t count)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = make_snapshot();
    struct anomaly copies[8];

    memcpy(copies, anomalies, count * sizeof(copies[0]));
    return store_write_tick(store,
                            &(struct tick){.snapshot = snapshot, .anomalies = {copies, count}});
}

static struct anomaly opening(const char *type, int64_t pid, int severity)
{
    struct anomaly anomaly;

    init_anomaly(&anomaly);
    anomaly.timestamp = fixture_now + FIXTURE_INTERVAL;
    anomaly.anomaly_type = type;
    anomaly.pid = pid;
    anomaly.severity = severity;
    anomaly.description = "it grew";
    anomaly.is_opening = true;
    return anomaly;
}

static void write_one(struct store *store, const struct anomaly *anomaly)
{
    if (write_with(store, anomaly, 1) < 0)
        fail_msg("%s", store_error(store));
}

static void begin(struct store *store, const char *run_id, const char *job_type)
{
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = run_id;
    job.job_id = "build";
    job.job_type = job_type;
    job.started_at = fixture_now;
    assert_int_equal(store_begin_job(store, &job, name), 0);
}

static struct pattern_list read_patterns(const struct store_fixture *fixture, struct arena *arena)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct pattern_list list = {0};

    assert_int_equal(store_read_patterns(reader, arena, &list), 0);
    return list;
}

static struct anomaly_list read_anomalies(const struct store_fixture *fixture, struct arena *arena)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct anomaly_list list = {0};

    assert_int_equal(store_read_anomalies(reader, NULL, REAL_UNKNOWN, REAL_UNKNOWN, arena, &list),
                     0);
    return list;
}

/* ---- with their ticks ---- */

static void test_anomalies_of_a_tick_are_stored(void **state)
{
    struct arena arena = {0};
    struct store *store = fixture_open(*state);
    struct anomaly anomalies[2] = {opening("memory_spike", 10, SEVERITY_HIGH),
                                   opening("memory_pressure", INT_UNKNOWN, SEVERITY_CRITICAL)};

    anomalies[0].uid = 1000;
    assert_int_equal(write_with(store, anomalies, 2), 0);
    anomalies[0].is_opening = false;
    anomalies[0].metric_value = 900;
    anomalies[0].threshold = 600; /* of the process that is currently the worst */
    anomalies[0].severity = SEVERITY_CRITICAL;
    assert_int_equal(write_with(store, anomalies, 1), 0);
    anomalies[0].cleared_at = fixture_now;
    assert_int_equal(write_with(store, anomalies, 1), 0);

    struct anomaly_list found = read_anomalies(*state, &arena);
    assert_int_equal(found.count, 2);
    for (size_t i = 0; i < 2; i++)
        assert_same_record(&anomaly_record, &anomalies[i], &found.items[i], "anomaly", i);
    assert_int_equal(found.items[0].uid, 1000);
    assert_int_equal(found.items[1].uid, INT_UNKNOWN);
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
}

static void test_failed_tick_stores_no_anomaly(void **state)
{
    struct store *store = fixture_open(*state);
    struct anomaly anomaly = opening("memory_spike", 10, SEVERITY_HIGH);
    struct process_event event;

    init_event(&event);
    event.timestamp = fixture_now;
    event.pid = 1;
    event.event_type = EVENT_SPAWN;
    event.run_id = event.job_id = "a run whose number is longer than any can be";
    struct tick tick = {.events = {&event, 1}, .anomalies = {&anomaly, 1}};
    assert_int_equal(store_write_tick(store, &tick), -EINVAL);
    sqlite3 *handle = fixture_sqlite(*state);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM anomalies"), 0);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM patterns"), 0);
    sqlite3_close(handle);
    assert_int_equal(store_close(store), 0);
}

/* ---- patterns ---- */

static const struct pattern *find_pattern(const struct pattern_list *patterns, const char *name)
{
    for (size_t i = 0; i < patterns->count; i++)
        if (strcmp(patterns->items[i].pattern_name, name) == 0) {
            assert_string_equal(patterns->items[i].pattern_type, "RESOURCE_ANOMALY");
            return &patterns->items[i];
        }
    fail_msg("there is no pattern %s", name);
    return NULL;
}

static void check_tags(const struct pattern *pattern, const char *expected)
{
    _cleanup_text_ struct text tags = {0};

    for (size_t i = 0; i < pattern->context_tags.count; i++)
        text_printf(&tags, "%s%s", i ? "," : "", pattern->context_tags.items[i]);
    assert_string_equal(text_string(&tags), expected);
}

static void test_pattern_subjects(void **state)
{
    struct arena arena = {0};
    struct store *store = fixture_open(*state);
    struct anomaly of_job = opening("memory_leak", 10, SEVERITY_MEDIUM),
                   of_job_without_type = opening("memory_leak", 10, SEVERITY_LOW);

    begin(store, RUN, "make test @parser");
    begin(store, "no type", NULL);
    of_job.run_id = RUN;
    of_job_without_type.run_id = "no type";
    const struct anomaly anomalies[] = {
        of_job,
        of_job_without_type,
        opening("memory_spike", 10, SEVERITY_HIGH),
        opening("stuck_process", 11, SEVERITY_MEDIUM),
        opening("zombie", 12, SEVERITY_HIGH),
        opening("memory_pressure", INT_UNKNOWN, SEVERITY_CRITICAL),
        opening("made up", 10, SEVERITY_UNKNOWN),
    };
    assert_int_equal(write_with(store, anomalies, ARRAY_SIZE(anomalies)), 0);

    struct pattern_list found = read_patterns(*state, &arena);
    assert_int_equal(found.count, ARRAY_SIZE(anomalies));
    const struct pattern *pattern = find_pattern(&found, "[memory_leak] make test @parser");
    check_tags(pattern, "anomaly:memory_leak,severity:medium,job_type:make test @parser");
    assert_true(pattern->confidence == 0.6);
    pattern = find_pattern(&found, "[memory_leak] python3");
    check_tags(pattern, "anomaly:memory_leak,severity:low,program:python3");
    assert_true(pattern->confidence == 0.5);
    pattern = find_pattern(&found, "[memory_spike] python3");
    check_tags(pattern, "anomaly:memory_spike,severity:high,program:python3");
    assert_true(pattern->confidence == 0.8);
    assert_string_equal(pattern->description, "it grew");
    assert_non_null(pattern->suggested_action);
    assert_non_null(find_pattern(&found, "[stuck_process] [kworker]"));
    pattern = find_pattern(&found, "[memory_pressure] machine");
    check_tags(pattern, "anomaly:memory_pressure,severity:critical");
    assert_true(pattern->confidence == 0.9);
    assert_non_null(find_pattern(&found, "[zombie] machine")); /* its command is unknown */
    pattern = find_pattern(&found, "[made up] python3");
    assert_null(pattern->suggested_action);
    assert_true(isnan(pattern->confidence));
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
}

/* The command of an ended process comes from its exit event. */
static void test_command_from_events(void **state)
{
    struct arena arena = {0};
    struct store *store = fixture_open(*state);
    struct anomaly anomaly = opening("oom_kill", 77, SEVERITY_CRITICAL);
    struct process_event event;

    init_event(&event);
    event.timestamp = fixture_now;
    event.pid = 77;
    event.event_type = EVENT_OOM;
    event.command = "ld -o all";
    assert_int_equal(
        store_write_tick(store, &(struct tick){.events = {&event, 1}, .anomalies = {&anomaly, 1}}),
        0);
    struct pattern_list found = read_patterns(*state, &arena);
    assert_non_null(find_pattern(&found, "[oom_kill] ld"));
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
}

static void test_occurrences_are_counted(void **state)
{
    struct arena arena = {0};
    struct store *store = fixture_open(*state);
    double first = fixture_now + FIXTURE_INTERVAL;

    for (int i = 0; i < 5; i++) {
        struct anomaly anomaly =
            opening("memory_spike", 10, i < 4 ? SEVERITY_HIGH : SEVERITY_CRITICAL);
        write_one(store, &anomaly);
        write_one(store, &anomaly); /* a repeated report of the same anomaly */
        anomaly.is_opening = false;
        anomaly.cleared_at = fixture_now;
        write_one(store, &anomaly);
        if (i == 2) { /* another writer counts on */
            assert_int_equal(store_close(store), 0);
            store = fixture_open(*state);
        }
    }
    struct pattern_list found = read_patterns(*state, &arena);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.items[0].occurrences, 5);
    assert_true(found.items[0].first_seen == first);
    assert_true(found.items[0].last_seen == first + 4 * 3 * FIXTURE_INTERVAL);
    assert_true(found.items[0].confidence == 0.9);
    check_tags(&found.items[0], "anomaly:memory_spike,severity:critical,program:python3");
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
}

/* Users choose the types of jobs. */
static void test_pattern_limit(void **state)
{
    struct arena arena = {0};
    struct store *store = fixture_open(*state);
    sqlite3 *handle = fixture_sqlite(*state);

    run_sql(handle, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
                    " INSERT INTO patterns (pattern_type, pattern_name, occurrences, last_seen)"
                    " SELECT 'RESOURCE_ANOMALY', 'a' || i, 1, 4e9 FROM n UNION ALL"
                    " SELECT 'RESOURCE_CORRELATION', 'c' || i, 1, 4e9 FROM n");
    for (int i = 0; i < 3; i++) {
        struct anomaly known = opening("memory_spike", 10, SEVERITY_HIGH);
        write_one(store, &known);
        struct anomaly unknown = opening("memory_spike", 11, SEVERITY_HIGH);
        write_one(store, &unknown);
    }
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM patterns"
                                     " WHERE pattern_type = 'RESOURCE_ANOMALY'"),
                     1001);
    sqlite3_close(handle);
    struct pattern_list found = read_patterns(*state, &arena);
    assert_int_equal(find_pattern(&found, "[memory_spike] python3")->occurrences, 3);
    assert_int_equal(find_pattern(&found, "[memory_spike] other")->occurrences, 3);
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
}

/* ---- anomalies that are left open ---- */

static void leave_open(struct store *store)
{
    struct anomaly open = opening("memory_spike", 10, SEVERITY_HIGH);
    struct anomaly cleared = opening("runaway_process", 10, SEVERITY_LOW);

    write_one(store, &open);
    cleared.cleared_at = fixture_now;
    write_one(store, &cleared);
    struct anomaly late = opening("zombie", 10, SEVERITY_HIGH);
    late.timestamp = fixture_now + 1; /* after the last snapshot */
    assert_int_equal(write_anomaly(store, &late), 0);
}

static void check_left(const struct store_fixture *fixture, double last, size_t more)
{
    struct arena arena = {0};
    struct anomaly_list found = read_anomalies(fixture, &arena);

    assert_int_equal(found.count, 3 + more);
    assert_string_equal(found.items[0].anomaly_type, "memory_spike");
    assert_string_equal(found.items[0].description, "it grew");
    assert_true(found.items[0].cleared_at == last);
    assert_string_equal(found.items[1].anomaly_type, "runaway_process");
    assert_true(found.items[1].cleared_at < last);
    assert_string_equal(found.items[2].anomaly_type, "zombie");
    assert_true(found.items[2].cleared_at == last + 1);
    arena_done(&arena);
}

static void test_ended_session_clears_anomalies(void **state)
{
    struct store *store = fixture_open(*state);

    leave_open(store);
    double last = fixture_now;
    assert_int_equal(store_close(store), 0);
    check_left(*state, last, 0);
}

static void test_dead_session_clears_anomalies(void **state)
{
    struct store *living = fixture_open(*state);
    pid_t pid = fork();

    if (pid == 0) {
        leave_open(fixture_open(*state));
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    double last = fixture_now + 2 * FIXTURE_INTERVAL;
    fixture_now += 100;
    struct anomaly own = opening("fd_exhaustion", 10, SEVERITY_HIGH);
    write_one(living, &own);
    assert_int_equal(store_close(fixture_open(*state)), 0); /* recovers the dead session */
    check_left(*state, last, 1);
    sqlite3 *handle = fixture_sqlite(*state);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM anomalies WHERE cleared_at IS NULL"), 1);
    sqlite3_close(handle);
    assert_int_equal(store_close(living), 0);
}

/* ---- migration from version 1 ---- */

static void load_sql(const struct store_fixture *fixture, const char *path)
{
    _cleanup_fclose_ FILE *file = fopen(path, "re");
    static char sql[65536];

    assert_non_null(file);
    size_t length = fread(sql, 1, sizeof(sql) - 1, file);
    assert_in_range(length, 1, sizeof(sql) - 2);
    sql[length] = '\0';
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, sql);
    sqlite3_close(handle);
}

static void check_schema_is_new(const struct store_fixture *fixture)
{
    static const char dump[] = "SELECT group_concat(type || ' ' || name || ' ' || tbl_name)"
                               " FROM (SELECT * FROM sqlite_master ORDER BY type, name)";
    struct store_fixture *other;

    store_fixture_set_up((void **)&other);
    assert_int_equal(store_close(fixture_open(other)), 0);
    sqlite3 *handle = fixture_sqlite(other);
    char sql[8192];
    sqlite3_stmt *ask;
    assert_int_equal(sqlite3_prepare_v2(handle, dump, -1, &ask, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(ask), SQLITE_ROW);
    snprintf(sql, sizeof(sql), "SELECT (%s) = '%s'", dump, sqlite3_column_text(ask, 0));
    sqlite3_finalize(ask);
    sqlite3_close(handle);
    store_fixture_tear_down((void **)&other);
    handle = fixture_sqlite(fixture);
    assert_int_equal(ask_int(handle, sql), 1);
    assert_int_equal(ask_int(handle, "PRAGMA user_version"), SCHEMA_VERSION);
    sqlite3_close(handle);
}

static void test_migration_from_version_1(void **state)
{
    struct store_fixture *fixture = *state;
    struct store_reader *reader = NULL;
    struct orphaned_run_list orphaned;
    struct snapshot_list snapshots;
    struct store_error error;
    struct arena arena = {0};
    struct job job;

    load_sql(fixture, FIXTURES "/store/version-1.sql");
    assert_int_equal(store_reader_open(fixture->path, &reader, &error), -EPROTONOSUPPORT);
    struct store *store = fixture_open(fixture);
    check_schema_is_new(fixture);
    reader = fixture_reader(fixture);
    assert_int_equal(store_read_snapshots(reader, 0, 0, &snapshots), 0);
    assert_int_equal(snapshots.count, 4);
    assert_int_equal(snapshots.items[3]->processes.count, 3);
    snapshot_list_done(&snapshots);
    assert_int_equal(store_find_job(reader, "old", &arena, &job), 0);
    assert_string_equal(job.cause, "lost");

    /* open anomalies are cleared with their run, or with the last snapshot */
    struct anomaly_list anomalies = read_anomalies(fixture, &arena);
    assert_int_equal(anomalies.count, 3);
    assert_true(anomalies.items[0].cleared_at == 1700000004);
    assert_true(anomalies.items[1].cleared_at == 1700000003.5);
    assert_true(anomalies.items[2].cleared_at == 1700000004);
    assert_int_equal(anomalies.items[0].uid, INT_UNKNOWN);

    /* and its run can continue */
    assert_int_equal(store_read_orphaned(reader, "synthetic-world",
                                         "5d0f6d1c-0000-4000-8000-000000000000", &arena, &orphaned),
                     0);
    assert_int_equal(orphaned.count, 1);
    assert_int_equal(orphaned.items[0].processes.count, 3);
    assert_int_equal(orphaned.items[0].processes.items[0].start_ticks, 100000000);
    begin(store, job.run_id, NULL);
    sqlite3 *handle = fixture_sqlite(fixture);
    assert_int_equal(ask_int(handle, "SELECT figures_tick FROM turns"), 4);
    sqlite3_close(handle);
    assert_int_equal(store_find_job(reader, "old", &arena, &job), 0);
    assert_int_equal(job.outcome, OUTCOME_RUNNING);
    struct anomaly anomaly = opening("memory_spike", 10, SEVERITY_HIGH);
    write_one(store, &anomaly);
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_anomalies_of_a_tick_are_stored),
        T(test_failed_tick_stores_no_anomaly),
        T(test_pattern_subjects),
        T(test_command_from_events),
        T(test_occurrences_are_counted),
        T(test_pattern_limit),
        T(test_ended_session_clears_anomalies),
        T(test_dead_session_clears_anomalies),
        T(test_migration_from_version_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
