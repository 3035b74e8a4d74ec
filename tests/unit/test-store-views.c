/* The views, read with plain SQLite, return the same as the store's readers, with the names and
 * the order of the reference: during a session, after it, and as minutes. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "model/record-json.h"
#include "store-world.h"

static sqlite3_stmt *ask(sqlite3 *handle, const char *sql, int64_t parameter)
{
    sqlite3_stmt *rows = NULL;

    if (sqlite3_prepare_v2(handle, sql, -1, &rows, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(handle));
    sqlite3_bind_int64(rows, 1, parameter);
    return rows;
}

/* ---- names and their order ---- */

static void check_columns(sqlite3 *handle, const char *view, const char *const *names)
{
    char sql[64];

    snprintf(sql, sizeof(sql), "SELECT * FROM %s", view);
    sqlite3_stmt *rows = ask(handle, sql, 0);
    for (int i = 0; names[i]; i++)
        assert_string_equal(sqlite3_column_name(rows, i), names[i]);
    sqlite3_finalize(rows);
}

static void test_columns_of_the_reference(void **state)
{
    static const char *const snapshots[] = {
        "id",
        "timestamp",
        "daemon_pid",
        "system_memory_total_mb",
        "system_memory_available_mb",
        "system_memory_used_mb",
        "daemon_rss_mb",
        "child_count",
        "zombie_count",
        "load_avg_1",
        "load_avg_5",
        "load_avg_15",
        "gpu_count",
        "gpu_utilization_pct",
        "gpu_memory_used_mb",
        "gpu_temperature",
        "pressure_level",
        "running_jobs",
        "active_sheets",
        NULL,
    };
    static const char *const process_metrics[] = {
        "id",
        "snapshot_id",
        "pid",
        "ppid",
        "command",
        "state",
        "cpu_percent",
        "rss_mb",
        "vms_mb",
        "threads",
        "open_fds",
        "age_seconds",
        "job_id",
        "sheet_num",
        "syscall_counts",
        "syscall_time_pct",
        NULL,
    };
    static const char *const process_events[] = {
        "id",         "timestamp", "pid",       "event_type", "exit_code",
        "signal_num", "job_id",    "sheet_num", "details",    NULL,
    };
    static const char *const others[] = {"jobs",     "sheets", "anomalies", "patterns",
                                         "sessions", "gaps",   NULL};
    struct store *store = fixture_open(*state);
    sqlite3 *handle = fixture_sqlite(*state);

    check_columns(handle, "snapshots", snapshots);
    check_columns(handle, "process_metrics", process_metrics);
    check_columns(handle, "process_events", process_events);
    for (const char *const *name = others; *name; name++)
        check_columns(handle, *name, (const char *const[]){NULL});
    sqlite3_close(handle);
    assert_int_equal(store_close(store), 0);
}

/* ---- rows against records ---- */

static int column_at(sqlite3_stmt *row, const char *name)
{
    for (int i = 0; i < sqlite3_column_count(row); i++)
        if (strcmp(sqlite3_column_name(row, i), name) == 0)
            return i;
    return -1;
}

/* As text, so that one comparison works for all types; lists as JSON. */
static bool is_text_of(sqlite3_stmt *row, int at, const struct field *field, const void *value)
{
    _cleanup_text_ struct text text = {0};
    struct json_writer json = {.out = &text};
    const char *found = (const char *)sqlite3_column_text(row, at);

    switch (field->type) {
    case FIELD_TEXT: text_append_string(&text, *(const char *const *)value); break;
    case FIELD_CHAR: text_append_char(&text, *(const char *)value); break;
    case FIELD_ENUM: text_append_string(&text, field_enum_name(field, *(const int *)value)); break;
    default: field_encode(field, value, &json); break;
    }
    return found && strcmp(found, text_string(&text)) == 0;
}

static bool is_same_column(sqlite3_stmt *row, int at, const struct field *field, const void *object)
{
    const void *value = (const char *)object + field->offset;
    bool is_null = sqlite3_column_type(row, at) == SQLITE_NULL;

    if (!is_stored(field, object) || is_null)
        return is_null && !is_stored(field, object);
    switch (field->type) {
    case FIELD_INT: return sqlite3_column_int64(row, at) == *(const int64_t *)value;
    case FIELD_REAL: return sqlite3_column_double(row, at) == *(const double *)value;
    case FIELD_BOOL: return sqlite3_column_int(row, at) == (*(const int *)value == TRUTH_YES);
    default: return is_text_of(row, at, field, value);
    }
}

/* Fields of nested records have both names. */
static void check_row(sqlite3_stmt *row, const struct record *record, const void *object,
                      const char *prefix)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        char name[64];

        snprintf(name, sizeof(name), "%s%s", prefix, field->name);
        if (field->type == FIELD_RECORD) {
            strcat(name, "_");
            check_row(row, field->record, (const char *)object + field->offset, name);
            continue;
        }
        int at = column_at(row, name);
        if (at < 0 && field->type == FIELD_RECORDS) /* they have their own views */
            continue;
        if (at < 0 && !is_stored(field, object)) /* of storms; no view has them */
            continue;
        if (at < 0)
            fail_msg("there is no column %s", name);
        if (!is_same_column(row, at, field, object))
            fail_msg("column %s differs: '%s'", name, sqlite3_column_text(row, at));
    }
}

static void check_gpu_array(sqlite3 *handle, const struct snapshot *snapshot, const char *name,
                            const char *field_name)
{
    const struct field *field = record_find(&gpu_metric_record, field_name);
    char sql[160];

    snprintf(sql, sizeof(sql),
             "SELECT e.value, e.type FROM snapshots s, json_each(s.%s) e WHERE s.id = ?1", name);
    sqlite3_stmt *rows = ask(handle, sql, snapshot->id);
    for (size_t i = 0; i < snapshot->gpus.count; i++) {
        const struct gpu_metric *gpu = &snapshot->gpus.items[i];
        if (!is_stored(field, gpu))
            continue;
        assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
        assert_string_equal(sqlite3_column_text(rows, 1), "real");
        double value = *(const double *)((const char *)gpu + field->offset);
        double shown = sqlite3_column_double(rows, 0);
        /* SQLite's JSON has 15 digits. */
        assert_true(same_real(field, value, shown) || fabs(value - shown) <= fabs(value) * 1e-14);
    }
    assert_int_equal(sqlite3_step(rows), SQLITE_DONE);
    sqlite3_finalize(rows);
}

static void check_processes(sqlite3 *handle, const struct snapshot *snapshot)
{
    sqlite3_stmt *rows =
        ask(handle, "SELECT * FROM process_metrics WHERE snapshot_id = ?1 ORDER BY pid, id",
            snapshot->id);

    for (size_t i = 0; i < snapshot->processes.count; i++) {
        assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
        check_row(rows, &process_metric_record, &snapshot->processes.items[i], "");
        assert_true(sqlite3_column_double(rows, column_at(rows, "timestamp")) ==
                    snapshot->timestamp);
        assert_true(sqlite3_column_double(rows, column_at(rows, "resolution_seconds")) ==
                    snapshot->resolution_seconds);
    }
    assert_int_equal(sqlite3_step(rows), SQLITE_DONE);
    sqlite3_finalize(rows);
}

static void check_snapshot(sqlite3 *handle, const struct snapshot *snapshot)
{
    sqlite3_stmt *row = ask(handle, "SELECT * FROM snapshots WHERE id = ?1", snapshot->id);

    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    check_row(row, &snapshot_record, snapshot, "");
    assert_int_equal(sqlite3_column_int64(row, column_at(row, "gpu_count")), snapshot->gpus.count);
    if (snapshot->resolution_seconds !=
        60) /* a minute may have more processes than its last tick */
        assert_int_equal(sqlite3_column_int64(row, column_at(row, "child_count")),
                         snapshot->processes.count);
    assert_int_equal(sqlite3_step(row), SQLITE_DONE);
    sqlite3_finalize(row);
    check_gpu_array(handle, snapshot, "gpu_utilization_pct", "utilization_pct");
    check_gpu_array(handle, snapshot, "gpu_memory_used_mb", "memory_used_mb");
    check_gpu_array(handle, snapshot, "gpu_temperature", "temperature_c");
    check_processes(handle, snapshot);
}

/* Compares the views with the readers; returns the number of snapshots. */
static size_t check_views(struct store_fixture *fixture)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    sqlite3 *handle = fixture_sqlite(fixture);
    struct snapshot_list list = {0};
    size_t processes = 0;

    assert_int_equal(store_read_snapshots(reader, 0, 10000, &list), 0);
    for (size_t i = 0; i < list.count; i++) {
        check_snapshot(handle, list.items[i]);
        processes += list.items[i]->processes.count;
    }
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM snapshots"), list.count);
    assert_int_equal(ask_int(handle, "SELECT count(DISTINCT id) FROM snapshots"), list.count);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM process_metrics"), processes);
    assert_int_equal(ask_int(handle, "SELECT count(DISTINCT id) FROM process_metrics"), processes);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM process_metrics m JOIN snapshots s"
                                     " ON s.id = m.snapshot_id"),
                     processes);
    size_t count = list.count;
    snapshot_list_done(&list);
    sqlite3_close(handle);
    return count;
}

#define TICKS 150

static void write_ticks(struct store *store, struct world *world, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        _cleanup_(snapshot_freep) struct snapshot *snapshot = world_tick(world);
        write_snapshot(store, snapshot);
    }
}

static void test_views_equal_readers(void **state)
{
    struct store_fixture *fixture = *state;
    struct world world;

    world_init(&world, 21);
    struct store *store = fixture_open(fixture);
    write_ticks(store, &world, TICKS);
    assert_int_equal(check_views(fixture), TICKS);
    assert_int_equal(store_close(store), 0);
    assert_int_equal(check_views(fixture), TICKS);

    /* two more writers at once; minutes replace the samples of the first one */
    store = fixture_open(fixture);
    struct store *other = fixture_open(fixture);
    struct world another;
    world_init(&another, 22);
    another.now = world.now;
    another.tag = 8;
    for (size_t i = 0; i < TICKS; i++) {
        write_ticks(store, &world, 1);
        write_ticks(other, &another, 1);
    }
    assert_int_equal(check_views(fixture), 3 * TICKS);
    double a_day = 24 * 3600;
    assert_int_equal(store_retain(store, world.now - 200 + a_day), 0);
    size_t count = check_views(fixture);
    assert_in_range(count, TICKS / 5, TICKS);
    assert_int_equal(store_close(store), 0);
    assert_int_equal(store_close(other), 0);
    world_done(&world);
    world_done(&another);
}

/* ---- events ---- */

static void test_view_of_events_excludes_exec(void **state)
{
    struct store_fixture *fixture = *state;
    struct process_event events[200];
    struct process_event_list found = {0};
    struct world world;
    size_t shown = 0;

    world_init(&world, 23);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        random_event(&world.random, &world.arena, &events[i]);
        events[i].timestamp = world.now += 1;
        events[i].run_id = i % 2 ? world.runs[1].run_id : NULL;
        events[i].job_id = i % 2 ? world.runs[1].job_id : NULL;
    }
    struct tick tick = {.events = {.items = events, .count = ARRAY_SIZE(events)}};
    assert_int_equal(store_write_tick(store, &tick), 0);

    struct store_reader *reader = fixture_reader(fixture);
    struct event_filter all = EVENT_FILTER_ALL;
    assert_int_equal(store_read_events(reader, &all, &world.arena, &found), 0);
    sqlite3 *handle = fixture_sqlite(fixture);
    sqlite3_stmt *rows = ask(handle, "SELECT * FROM process_events ORDER BY id", 0);
    for (size_t i = 0; i < found.count; i++) {
        if (found.items[i].event_type == EVENT_EXEC)
            continue;
        assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
        check_row(rows, &process_event_record, &found.items[i], "");
        shown++;
    }
    assert_int_equal(sqlite3_step(rows), SQLITE_DONE);
    assert_in_range(shown, 100, ARRAY_SIZE(events) - 5);
    sqlite3_finalize(rows);
    sqlite3_close(handle);
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    world_done(&world);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_columns_of_the_reference),
        T(test_views_equal_readers),
        T(test_view_of_events_excludes_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
