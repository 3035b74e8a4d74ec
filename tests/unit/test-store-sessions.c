/* Several writers of one database: their samples do not mix, dead sessions are recovered, and
 * living ones are not touched. */
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

/* ---- simultaneous sessions ---- */

static void test_two_sessions_at_once(void **state)
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
        /* out of step, so that their keyframes differ */
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

/* Short sessions beside a long one: some have no snapshot, or no process. */
static void test_short_sessions_beside_a_long_one(void **state)
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
            struct snapshot *empty = snapshot_new();
            empty->timestamp = world.now += 0.5;
            empty->id = world.last_id = snapshot_id_next(world.last_id, world.now, 3);
            empty->host = "host.example";
            empty->daemon_pid = getpid();
            empty->resolution_seconds = FIXTURE_INTERVAL;
            written_add(&written, empty);
            write_snapshot(other, empty);
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
    /* it keeps its name */
    check_outcome(*state, "build-2~1", OUTCOME_SUCCESS, NULL);
    check_outcome(*state, "build-3", OUTCOME_RUNNING, NULL);
    assert_int_equal(store_close(one), 0);
    check_outcome(*state, "build-3", OUTCOME_UNKNOWN, "lost");
    check_outcome(*state, "build", OUTCOME_RUNNING, NULL);
    finish(other, "run-5", "build");
    assert_int_equal(store_close(other), 0);
}

static void test_names_are_per_user(void **state)
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

/* A run whose processes were sampled before it began is stored once. */
static void test_run_sampled_before_it_begins(void **state)
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

/* ---- sessions of dead writers ---- */

/* A writer dies with a running job. Its snapshots are generated again here for comparison. */
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

/* Every process ends at its last snapshot, and the session at its own last one. */
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
    /* before another writer opens the database */
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

static void test_dead_session_is_recovered(void **state _unused_)
{
    static const size_t counts[] = {0, 1, 2, 59, 60, 61, 130};

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        struct store_fixture *fixture;
        store_fixture_set_up((void **)&fixture);
        die_and_recover(fixture, counts[i]);
        store_fixture_tear_down((void **)&fixture);
    }
}

/* A reader that was open before sees it, too. */
static void test_name_of_a_lost_run_is_free(void **state)
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

static void test_living_session_is_not_ended(void **state)
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

/* Running jobs of a session that ends are lost, as if it had died. */
static void test_ended_session_loses_running_jobs(void **state)
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

/* After the lock file is deleted, a living session looks dead for one tick at most. */
static void test_deleted_lock_is_recreated(void **state)
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

/* A session that another writer has ended resumes. */
static void test_session_ended_without_lock_resumes(void **state)
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

static void test_writers_create_the_database_at_once(void **state)
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
        T(test_two_sessions_at_once),
        T(test_short_sessions_beside_a_long_one),
        T(test_a_second_run_is_numbered),
        T(test_names_are_per_user),
        T(test_a_long_name_is_numbered),
        T(test_run_sampled_before_it_begins),
        cmocka_unit_test(test_dead_session_is_recovered),
        T(test_name_of_a_lost_run_is_free),
        T(test_living_session_is_not_ended),
        T(test_ended_session_loses_running_jobs),
        T(test_deleted_lock_is_recreated),
        T(test_session_ended_without_lock_resumes),
        T(test_writers_create_the_database_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
