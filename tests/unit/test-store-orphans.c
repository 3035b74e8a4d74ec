/* Runs that have lost their writer, and their last processes. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "store-world.h"

/* ---- a small machine ---- */

struct sight {
    const char *run_id; /* NULL: of no run */
    int64_t pid;
    uint64_t start_ticks;
    int64_t sheet_num;
};

static void write_sights(struct store *store, const struct sight *sights, size_t count)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    struct process_metric processes[8];

    for (size_t i = 0; i < count; i++) {
        record_init(&process_metric_record, &processes[i]);
        processes[i].pid = sights[i].pid;
        processes[i].start_ticks = sights[i].start_ticks;
        processes[i].sheet_num = sights[i].sheet_num;
        processes[i].run_id = processes[i].job_id = sights[i].run_id;
    }
    snapshot->processes = (struct process_list){processes, count};
    fixture_stamp(snapshot);
    write_snapshot(store, snapshot);
}

#define WRITE(store, ...)                                                                          \
    write_sights(store, (const struct sight[]){__VA_ARGS__},                                       \
                 ARRAY_SIZE(((const struct sight[]){__VA_ARGS__})))

static void begin(struct store *store, const char *run_id)
{
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = job.job_id = run_id;
    job.started_at = fixture_now += 1;
    if (store_begin_job(store, &job, name) < 0)
        fail_msg("%s", store_error(store));
}

static void finish(struct store *store, const char *run_id, int outcome, const char *cause)
{
    struct job job;

    record_init(&job_record, &job);
    job.run_id = run_id;
    job.outcome = outcome;
    job.cause = cause;
    job.ended_at = fixture_now += 1;
    assert_int_equal(store_finish_job(store, &job), 0);
}

static void put_sheet(struct store *store, const char *run_id, int64_t number, int outcome)
{
    struct sheet sheet;

    record_init(&sheet_record, &sheet);
    sheet.run_id = run_id;
    sheet.sheet_num = number;
    sheet.outcome = outcome;
    if (outcome != OUTCOME_RUNNING)
        sheet.ended_at = fixture_now;
    assert_int_equal(store_write_sheet(store, &sheet), 0);
}

static struct orphaned_run_list read_for(const struct store_fixture *fixture, const char *host,
                                         const char *boot_id, struct arena *arena)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct orphaned_run_list list = {0};

    if (store_read_orphaned(reader, host, boot_id, arena, &list) < 0)
        fail_msg("%s", store_reader_error(reader));
    return list;
}

static struct orphaned_run_list read_orphaned(const struct store_fixture *fixture,
                                              struct arena *arena)
{
    return read_for(fixture, fixture->options.host, fixture->options.boot_id, arena);
}

static void check_process(const struct last_seen *found, int64_t pid, uint64_t start_ticks,
                          int64_t sheet_num)
{
    assert_int_equal(found->pid, pid);
    assert_int_equal(found->start_ticks, start_ticks);
    assert_int_equal(found->sheet_num, sheet_num);
}

/* ---- orphaned runs ---- */

static void write_runs(struct store *store)
{
    begin(store, "first");
    begin(store, "second");
    begin(store, "over");
    put_sheet(store, "first", 1, OUTCOME_SUCCESS);
    put_sheet(store, "first", 2, OUTCOME_RUNNING);
    WRITE(store, {"first", 10, 100, 1}, {"first", 11, 110, 2}, {"over", 30, 300, INT_UNKNOWN},
          {NULL, 40, 400, INT_UNKNOWN});
    finish(store, "over", OUTCOME_FAILURE, NULL);
    /* 10 belongs to another run now, 11 has ended, 30 has outlived its run */
    WRITE(store, {"first", 10, 555, 2}, {"first", 12, 120, 2}, {"second", 20, 200, INT_UNKNOWN},
          {"over", 30, 300, INT_UNKNOWN}, {NULL, 40, 400, INT_UNKNOWN});
}

static void check_runs(const struct orphaned_run_list *found)
{
    assert_int_equal(found->count, 2);
    const struct orphaned_run *second = &found->items[0], *first = &found->items[1];
    assert_string_equal(second->job.run_id, "second");
    assert_int_equal(second->job.outcome, OUTCOME_UNKNOWN);
    assert_string_equal(second->job.cause, "lost");
    assert_int_equal(second->processes.count, 1);
    check_process(&second->processes.items[0], 20, 200, INT_UNKNOWN);
    assert_int_equal(second->sheets.count, 0);

    assert_string_equal(first->job.run_id, "first");
    assert_string_equal(first->job.job_id, "first");
    assert_int_equal(first->processes.count, 2);
    check_process(&first->processes.items[0], 10, 555, 2);
    check_process(&first->processes.items[1], 12, 120, 2);
    assert_int_equal(first->sheets.count, 1);
    assert_int_equal(first->sheets.items[0].sheet_num, 2);
}

static void test_run_of_a_dead_writer(void **state)
{
    struct arena arena = {0};

    fixture_die_after(*state, write_runs, 1000);
    struct orphaned_run_list found = read_orphaned(*state, &arena);
    check_runs(&found); /* before another writer has recovered the session */
    assert_int_equal(store_close(fixture_open(*state)), 0);
    found = read_orphaned(*state, &arena);
    check_runs(&found);
    arena_done(&arena);
}

static void test_run_of_an_ended_writer(void **state)
{
    struct arena arena = {0};
    struct store *store = fixture_open(*state);

    write_runs(store);
    struct orphaned_run_list found = read_orphaned(*state, &arena);
    assert_int_equal(found.count, 0); /* runs of a living writer are not orphaned */
    assert_int_equal(store_close(store), 0);
    found = read_orphaned(*state, &arena);
    check_runs(&found);
    arena_done(&arena);
}

/* A pid is not valid on another boot or another machine. */
static void test_other_hosts_and_boots_are_excluded(void **state)
{
    struct store_fixture *fixture = *state;
    struct arena arena = {0};

    fixture_die_after(fixture, write_runs, 1000);
    assert_int_equal(read_for(fixture, fixture->options.host, "another boot", &arena).count, 0);
    assert_int_equal(read_for(fixture, "elsewhere", fixture->options.boot_id, &arena).count, 0);
    arena_done(&arena);
}

/* ---- several writers ---- */

static void take_first(struct store *store)
{
    begin(store, "first");
}

static void see_first_end(struct store *store)
{
    begin(store, "first");
    WRITE(store, {"first", 12, 120, 2});
    WRITE(store, {NULL, 40, 400, INT_UNKNOWN});
}

static void test_runs_taken_over_are_excluded(void **state)
{
    struct arena arena = {0};

    fixture_die_after(*state, write_runs, 1000);
    struct store *store = fixture_open(*state);
    begin(store, "first");
    struct orphaned_run_list found = read_orphaned(*state, &arena);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.items[0].job.run_id, "second");
    finish(store, "first", OUTCOME_UNKNOWN, "its end was not seen");
    assert_int_equal(store_close(store), 0);
    found = read_orphaned(*state, &arena);
    assert_int_equal(found.count, 1);
    arena_done(&arena);
}

/* A session that dies before its first snapshot does not hide the previous one. */
static void test_processes_of_the_latest_session(void **state)
{
    struct arena arena = {0};

    fixture_die_after(*state, write_runs, 1000);
    fixture_die_after(*state, take_first, 1000);
    struct orphaned_run_list found = read_orphaned(*state, &arena);
    assert_int_equal(found.count, 2);
    check_runs(&found);
    fixture_die_after(*state, see_first_end, 1000);
    found = read_orphaned(*state, &arena);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.items[1].job.run_id, "first");
    assert_int_equal(found.items[1].processes.count, 0);
    assert_int_equal(found.items[1].sheets.count, 1);
    arena_done(&arena);
}

/* ---- many ---- */

static void test_limit_keeps_the_latest(void **state)
{
    struct arena arena = {0};

    fixture_die_after(*state, write_runs, 1000);
    sqlite3 *handle = fixture_sqlite(*state);
    run_sql(handle, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)"
                    " INSERT INTO jobs (session, run_id, job_id, started_at, outcome, cause)"
                    " SELECT 1, 'old-' || i, 'old', i, 'unknown', 'lost' FROM n");
    sqlite3_close(handle);
    struct store *store = fixture_open(*state);
    begin(store, "young");
    struct orphaned_run_list found = read_orphaned(*state, &arena);
    assert_int_equal(found.count, ORPHANED_RUNS_MAX);
    assert_string_equal(found.items[0].job.run_id, "second");
    assert_string_equal(found.items[2].job.run_id, "old-1500");
    assert_string_equal(found.items[ORPHANED_RUNS_MAX - 1].job.run_id, "old-503");
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_run_of_a_dead_writer),
        T(test_run_of_an_ended_writer),
        T(test_other_hosts_and_boots_are_excluded),
        T(test_runs_taken_over_are_excluded),
        T(test_processes_of_the_latest_session),
        T(test_limit_keeps_the_latest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
