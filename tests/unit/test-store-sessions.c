/* Several writers at one database: their samples do not mix, what a dead one has left is settled,
 * and what a living one does is left alone. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "store-world.h"

#define TICKS 140

static int by_time(const void *a, const void *b)
{
    const struct snapshot *const *x = a, *const *y = b;
    return (*x)->timestamp < (*y)->timestamp ? -1 : 1;
}

static void check_snapshots(const struct store_fixture *fixture, struct written *written)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct snapshot_list found = {0};

    if (written->count)
        qsort(written->items, written->count, sizeof(written->items[0]), by_time);
    assert_int_equal(store_read_snapshots(reader, 0, 2 * TICKS + 1, &found), 0);
    assert_same_snapshots(written->items, written->count, &found);
    snapshot_list_done(&found);
}

/* ---- side by side ---- */

static void test_two_at_once(void **state)
{
    struct written written = {0};
    struct world one, other;

    world_init(&one, 41);
    world_init(&other, 42);
    other.now += 0.003; /* never at the same time */
    other.tag = 8;
    struct store *first = fixture_open(*state), *second = fixture_open(*state);
    for (size_t i = 0; i < TICKS; i++) {
        write_next(first, &one, &written);
        /* not in step, so that their keyframes fall apart */
        if (i % 3)
            write_next(second, &other, &written);
        if (i % 45 == 44)
            check_snapshots(*state, &written);
    }
    assert_int_equal(store_close(first), 0);
    write_next(second, &other, &written);
    check_snapshots(*state, &written);
    assert_int_equal(store_close(second), 0);
    check_snapshots(*state, &written);
    written_done(&written);
    world_done(&one);
    world_done(&other);
}

/* Short runs beside a long one: some end before their first snapshot, or see no process at all. */
static void test_who_has_nothing_leaves_the_rest_alone(void **state)
{
    struct written written = {0};
    struct world world;

    world_init(&world, 47);
    struct store *store = fixture_open(*state);
    for (size_t i = 0; i < TICKS; i++) {
        write_next(store, &world, &written);
        if (i % 5)
            continue;
        struct store *other = fixture_open(*state);
        if (i % 10) {
            struct snapshot *nobody = snapshot_new();
            nobody->timestamp = world.now += 0.5;
            nobody->id = world.last_id = snapshot_id_next(world.last_id, world.now, 3);
            nobody->host = "host.example";
            nobody->daemon_pid = getpid();
            nobody->resolution_seconds = FIXTURE_INTERVAL;
            written_add(&written, nobody);
            write_snapshot(other, nobody);
        }
        assert_int_equal(store_close(other), 0);
    }
    check_snapshots(*state, &written);
    assert_int_equal(store_close(store), 0);
    check_snapshots(*state, &written);
    written_done(&written);
    world_done(&world);
}

/* ---- jobs ---- */

static void make_job(struct job *job, const char *run_id, const char *job_id)
{
    record_init(&job_record, job);
    job->run_id = run_id;
    job->job_id = job_id;
    job->started_at = 1000;
}

static const char *begin(struct store *store, const char *run_id, const char *job_id)
{
    static char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    make_job(&job, run_id, job_id);
    if (store_begin_job(store, &job, name) < 0)
        fail_msg("%s", store_error(store));
    return name;
}

static void finish(struct store *store, const char *run_id, const char *job_id)
{
    struct job job;

    make_job(&job, run_id, job_id);
    job.outcome = OUTCOME_SUCCESS;
    job.ended_at = 2000;
    assert_int_equal(store_finish_job(store, &job), 0);
}

static void check_outcome(const struct store_fixture *fixture, const char *name, int outcome,
                          const char *cause)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct arena arena = {0};
    struct job job;

    assert_int_equal(store_find_job(reader, name, &arena, &job), 0);
    assert_int_equal(job.outcome, outcome);
    if (cause)
        assert_string_equal(job.cause, cause);
    else
        assert_null(job.cause);
    arena_done(&arena);
}

static void test_a_second_run_is_numbered(void **state)
{
    struct store *one = fixture_open(*state), *other = fixture_open(*state);

    assert_string_equal(begin(one, "run-1", "build"), "build");
    assert_string_equal(begin(other, "run-2", "build"), "build-2");
    assert_string_equal(begin(one, "run-3", "build"), "build-3");
    assert_string_equal(begin(one, "run-4", "test"), "test");
    finish(one, "run-1", "build");
    assert_string_equal(begin(other, "run-5", "build"), "build");
    assert_string_equal(begin(one, "run-6", "build"), "build-4");
    finish(other, "run-2", "build");
    assert_string_equal(begin(one, "run-7", "build"), "build-2");
    /* its name stays what it became */
    check_outcome(*state, "build-2~1", OUTCOME_SUCCESS, NULL);
    check_outcome(*state, "build-3", OUTCOME_RUNNING, NULL);
    assert_int_equal(store_close(one), 0);
    check_outcome(*state, "build-3", OUTCOME_UNKNOWN, "lost");
    check_outcome(*state, "build", OUTCOME_RUNNING, NULL);
    finish(other, "run-5", "build");
    assert_int_equal(store_close(other), 0);
}

static void test_users_have_names_of_their_own(void **state)
{
    struct store *store = fixture_open(*state);
    static const struct {
        const char *run_id;
        int64_t uid;
        const char *name;
    } runs[] = {
        {"run-1", 1000, "build"},   {"run-2", 1001, "build"},   {"run-3", INT_UNKNOWN, "build"},
        {"run-4", 1000, "build-2"}, {"run-5", 1001, "build-2"}, {"run-6", INT_UNKNOWN, "build-2"},
        {"run-1", 1000, "build"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
        char name[JOB_ID_NUMBERED_MAX_BYTES];
        struct job job;

        make_job(&job, runs[i].run_id, "build");
        job.uid = runs[i].uid;
        assert_int_equal(store_begin_job(store, &job, name), 0);
        assert_string_equal(name, runs[i].name);
    }
    assert_int_equal(store_close(store), 0);
}

static void test_a_long_name_is_numbered(void **state)
{
    char longest[JOB_ID_MAX_BYTES + 1];
    struct store *store = fixture_open(*state);

    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_string_equal(begin(store, "run-1", longest), longest);
    const char *second = begin(store, "run-2", longest);
    assert_int_equal(strlen(second), JOB_ID_MAX_BYTES + 2);
    check_outcome(*state, second, OUTCOME_RUNNING, NULL);
    assert_int_equal(store_close(store), 0);
}

/* A run whose processes were seen before it was told of is not a run of its own. */
static void test_a_run_that_was_seen_first(void **state)
{
    struct arena arena = {0};
    struct world world;
    struct job job;

    world_init_tame(&world, 43);
    struct store *store = fixture_open(*state);
    for (size_t i = 0; i < 20; i++) {
        _cleanup_(snapshot_freep) struct snapshot *snapshot = world_tick(&world);
        write_snapshot(store, snapshot);
    }
    const struct world_run *run = &world.runs[0];
    assert_string_equal(begin(store, run->run_id, run->job_id), run->job_id);
    struct store_reader *reader = fixture_reader(*state);
    assert_int_equal(store_find_job(reader, run->run_id, &arena, &job), 0);
    assert_string_equal(job.job_id, run->job_id);
    assert_true(job.started_at == 1000);
    int64_t samples = job.profile.num_samples;
    assert_in_range(samples, 1, 20);
    for (size_t i = 0; i < 20; i++) {
        _cleanup_(snapshot_freep) struct snapshot *snapshot = world_tick(&world);
        write_snapshot(store, snapshot);
    }
    finish(store, run->run_id, run->job_id);
    assert_int_equal(store_find_job(reader, run->run_id, &arena, &job), 0);
    assert_in_range(job.profile.num_samples, samples + 1, 40);
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
    world_done(&world);
}

/* ---- the dead ---- */

/* A writer that dies with a job still running. Its snapshots are made again here, to know them. */
static void write_and_die(struct store_fixture *fixture, struct world *world,
                          struct written *written, size_t count)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct store *store = fixture_open(fixture);
        begin(store, "run-lost", "build");
        while (written->count < count)
            write_next(store, world, written);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    while (written->count < count)
        written_elsewhere(written, world, pid);
}

/* Every process ends at the last snapshot that it was in, and the session at its last. */
static void check_settled(struct store_fixture *fixture, const struct written *written)
{
    const struct snapshot *last = written->count ? written->items[written->count - 1] : NULL;
    sqlite3 *handle = fixture_sqlite(fixture);
    char sql[160];

    assert_int_equal(ask_int(handle, "SELECT count(*) FROM recent WHERE session = 1"), 0);
    assert_in_range(ask_int(handle, "SELECT COALESCE(max(last_tick), 0) FROM proc"
                                    " WHERE session = 1"),
                    0, written->count);
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM proc WHERE session = 1 AND last_tick = %zu",
             written->count);
    assert_int_equal(ask_int(handle, sql), last ? last->processes.count : 0);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM sessions WHERE id = 1"
                                     " AND ended_at IS NULL"),
                     0);
    if (last)
        assert_true(fabs(ask_real(handle, "SELECT ended_at FROM sessions WHERE id = 1") -
                         last->timestamp) < 0.001);
    sqlite3_close(handle);
}

static void die_and_recover(struct store_fixture *fixture, size_t count)
{
    struct written written = {0};
    struct world world;

    world_init(&world, 44 + count);
    write_and_die(fixture, &world, &written, count);
    /* before any writer comes */
    check_outcome(fixture, "build", OUTCOME_UNKNOWN, "lost");
    check_snapshots(fixture, &written);

    struct store *store = fixture_open(fixture);
    check_settled(fixture, &written);
    check_outcome(fixture, "build", OUTCOME_UNKNOWN, "lost");
    check_snapshots(fixture, &written);
    assert_string_equal(begin(store, "run-next", "build"), "build");
    check_outcome(fixture, "build", OUTCOME_RUNNING, NULL);
    check_outcome(fixture, "build~1", OUTCOME_UNKNOWN, "lost");
    assert_int_equal(store_close(store), 0);
    check_snapshots(fixture, &written);
    written_done(&written);
    world_done(&world);
}

static void test_what_the_dead_leave_is_settled(void **state _unused_)
{
    static const size_t counts[] = {0, 1, 2, 59, 60, 61, 130};

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        struct store_fixture *fixture;
        store_fixture_set_up((void **)&fixture);
        die_and_recover(fixture, counts[i]);
        store_fixture_tear_down((void **)&fixture);
    }
}

/* One that was open all the while finds out, too. */
static void test_a_name_is_free_when_its_run_is_dead(void **state)
{
    struct written written = {0};
    struct world world;

    world_init(&world, 45);
    struct store *store = fixture_open(*state);
    struct store_reader *reader = fixture_reader(*state);
    write_and_die(*state, &world, &written, 5);
    assert_string_equal(begin(store, "run-next", "build"), "build");
    struct arena arena = {0};
    struct job job;
    assert_int_equal(store_find_job(reader, "build~1", &arena, &job), 0);
    assert_int_equal(job.outcome, OUTCOME_UNKNOWN);
    assert_string_equal(job.cause, "lost");
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
    written_done(&written);
    world_done(&world);
}

static void test_the_living_are_left_alone(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct world world;
    int to_child[2], to_parent[2];
    char byte;

    assert_int_equal(pipe(to_child), 0);
    assert_int_equal(pipe(to_parent), 0);
    world_init(&world, 46);
    pid_t pid = fork();
    if (pid == 0) {
        struct store *store = fixture_open(fixture);
        begin(store, "run-living", "build");
        for (size_t i = 0; i < 70; i++)
            write_next(store, &world, &written);
        if (write(to_parent[1], "x", 1) != 1 || read(to_child[0], &byte, 1) != 1)
            _exit(1);
        for (size_t i = 0; i < 70; i++)
            write_next(store, &world, &written);
        _exit(store_close(store) < 0);
    }
    assert_int_equal(read(to_parent[0], &byte, 1), 1);
    struct store *store = fixture_open(fixture);
    check_outcome(fixture, "build", OUTCOME_RUNNING, NULL);
    assert_string_equal(begin(store, "run-next", "build"), "build-2");
    sqlite3 *handle = fixture_sqlite(fixture);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM sessions WHERE ended_at IS NULL"), 2);
    sqlite3_close(handle);
    assert_int_equal(write(to_child[1], "x", 1), 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    while (written.count < 140)
        written_elsewhere(&written, &world, pid);
    check_snapshots(fixture, &written);
    assert_int_equal(store_close(store), 0);
    close(to_child[0]), close(to_child[1]), close(to_parent[0]), close(to_parent[1]);
    written_done(&written);
    world_done(&world);
}

/* What is open at its end is lost, as if it had died: nobody goes on with it. */
static void test_a_session_that_ends_loses_what_still_runs(void **state)
{
    struct store *store = fixture_open(*state);

    begin(store, "run-1", "build");
    assert_int_equal(store_close(store), 0);
    check_outcome(*state, "build", OUTCOME_UNKNOWN, "lost");
    store = fixture_open(*state);
    assert_string_equal(begin(store, "run-2", "build"), "build");
    assert_int_equal(store_close(store), 0);
}

/* ---- the lock ---- */

static void delete_locks(const struct store_fixture *fixture)
{
    char path[128];

    snprintf(path, sizeof(path), "%s-lock", fixture->path);
    assert_int_equal(unlink(path), 0);
}

static void check_running(struct store_reader *reader, const char *name)
{
    struct arena arena = {0};
    struct job job;

    assert_int_equal(store_find_job(reader, name, &arena, &job), 0);
    assert_int_equal(job.outcome, OUTCOME_RUNNING);
    arena_done(&arena);
}

/* Whoever deletes it does not make the living look dead for longer than a tick. */
static void test_the_lock_is_made_again(void **state)
{
    struct written written = {0};
    struct world world;

    world_init(&world, 48);
    struct store *store = fixture_open(*state);
    begin(store, "run-1", "build");
    struct store_reader *reader = fixture_reader(*state);
    for (size_t i = 0; i < 3; i++) {
        delete_locks(*state);
        write_next(store, &world, &written);
        check_running(reader, "build"); /* that was open before */
        struct store *other = fixture_open(*state);
        check_outcome(*state, "build", OUTCOME_RUNNING, NULL);
        assert_int_equal(store_close(other), 0);
    }
    store_reader_close(reader);
    check_snapshots(*state, &written);
    assert_int_equal(store_close(store), 0);
    written_done(&written);
    world_done(&world);
}

/* One that was ended by others in between takes its session up again. */
static void test_the_lock_was_missed(void **state)
{
    struct written written = {0};
    struct world world;

    world_init(&world, 49);
    struct store *store = fixture_open(*state);
    begin(store, "run-1", "build");
    for (size_t i = 0; i < TICKS; i++) {
        if (i % 45 == 7) {
            delete_locks(*state);
            assert_int_equal(store_close(fixture_open(*state)), 0);
            check_outcome(*state, "build", OUTCOME_UNKNOWN, "lost");
        }
        write_next(store, &world, &written);
    }
    check_outcome(*state, "build", OUTCOME_RUNNING, NULL);
    check_snapshots(*state, &written);
    finish(store, "run-1", "build");
    assert_int_equal(store_close(store), 0);
    check_outcome(*state, "build", OUTCOME_SUCCESS, NULL);
    check_snapshots(*state, &written);
    written_done(&written);
    world_done(&world);
}

static void test_writers_make_the_database_at_once(void **state)
{
    struct store_fixture *fixture = *state;
    pid_t pids[8];

    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            struct store *store = fixture_open(fixture);
            struct world world;
            world_init(&world, 50 + i);
            world.tag = (unsigned)i;
            for (int k = 0; k < 5; k++)
                write_snapshot(store, world_tick(&world));
            _exit(store_close(store) < 0);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    sqlite3 *handle = fixture_sqlite(fixture);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM snapshots"), 5 * ARRAY_SIZE(pids));
    assert_int_equal(ask_int(handle, "PRAGMA auto_vacuum"), 2);
    sqlite3_close(handle);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_two_at_once),
        T(test_who_has_nothing_leaves_the_rest_alone),
        T(test_a_second_run_is_numbered),
        T(test_users_have_names_of_their_own),
        T(test_a_long_name_is_numbered),
        T(test_a_run_that_was_seen_first),
        cmocka_unit_test(test_what_the_dead_leave_is_settled),
        T(test_a_name_is_free_when_its_run_is_dead),
        T(test_the_living_are_left_alone),
        T(test_a_session_that_ends_loses_what_still_runs),
        T(test_the_lock_is_made_again),
        T(test_the_lock_was_missed),
        T(test_writers_make_the_database_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
