/* Estimates from stored runs: only the latest finished runs of a type are used. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "query/query.h"
#include "store-world.h"

static void put_run(struct store *store, int number, const char *type, int outcome,
                    const char *cause, double cpu_seconds)
{
    char run_id[32], name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    snprintf(run_id, sizeof(run_id), "run-%d", number);
    record_init(&job_record, &job);
    job.run_id = job.job_id = run_id;
    job.job_type = type;
    job.started_at = 1000 + number;
    job.uid = 1000 + number % 2;
    assert_int_equal(store_begin_job(store, &job, name), 0);
    if (outcome == OUTCOME_RUNNING)
        return;
    job.outcome = outcome;
    job.cause = cause;
    job.ended_at = job.started_at + 10;
    job.profile.cpu_seconds = cpu_seconds;
    job.profile.peak_rss_mb = 100;
    job.profile.wall_seconds = 10;
    assert_int_equal(store_finish_job(store, &job), 0);
}

static int estimate_for(struct store_fixture *fixture, const char *type, int64_t uid,
                        struct resource_estimate *ret)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct arena arena = {0};

    int r = query_estimate(reader, type, uid, &arena, ret);
    arena_done(&arena);
    return r;
}

static int estimate(struct store_fixture *fixture, const char *type, struct resource_estimate *ret)
{
    return estimate_for(fixture, type, INT_UNKNOWN, ret);
}

static void test_no_data(void **state)
{
    struct resource_estimate found;
    struct store *store = fixture_open(*state);

    assert_int_equal(estimate(*state, "make", &found), -ENODATA);
    put_run(store, 1, "make", OUTCOME_RUNNING, NULL, 0);
    put_run(store, 2, "make", OUTCOME_UNKNOWN, "lost", 5);
    put_run(store, 3, "test", OUTCOME_SUCCESS, NULL, 5);
    assert_int_equal(estimate(*state, "make", &found), -ENODATA);
    assert_int_equal(estimate(*state, "test", &found), 0);
    assert_int_equal(found.sample_size, 1);
    assert_int_equal(store_close(store), 0);
}

static void test_only_finished_runs_of_the_type_count(void **state)
{
    struct resource_estimate found;
    struct store *store = fixture_open(*state);

    put_run(store, 1, "make", OUTCOME_SUCCESS, NULL, 1);
    put_run(store, 2, "make", OUTCOME_FAILURE, "exit status 1", 2);
    put_run(store, 3, "make", OUTCOME_UNKNOWN, "its end was not seen", 3);
    put_run(store, 4, "make", OUTCOME_UNKNOWN, "lost", 100);
    put_run(store, 5, "other", OUTCOME_SUCCESS, NULL, 100);
    assert_int_equal(estimate(*state, "make", &found), 0);
    assert_int_equal(found.sample_size, 3);
    assert_true(found.estimated_cpu_seconds == 2);
    assert_true(found.failure_rate == 0.5);
    assert_int_equal(store_close(store), 0);
}

static void test_estimate_of_one_user(void **state)
{
    struct resource_estimate found;
    struct store *store = fixture_open(*state);

    for (int i = 0; i < 10; i++)
        put_run(store, i, "make", OUTCOME_SUCCESS, NULL, i % 2 ? 7 : 3);
    assert_int_equal(estimate_for(*state, "make", 1001, &found), 0);
    assert_int_equal(found.sample_size, 5);
    assert_true(found.estimated_cpu_seconds == 7);
    assert_int_equal(estimate_for(*state, "make", 0, &found), -ENODATA);
    assert_int_equal(store_close(store), 0);
}

/* Many running, lost or older runs do not displace them. */
static void test_latest_finished_runs_are_used(void **state)
{
    struct resource_estimate found;
    struct store *store = fixture_open(*state);
    int number = 0;

    for (int i = 0; i < 50; i++)
        put_run(store, number++, "make", OUTCOME_FAILURE, NULL, 1000);
    for (int i = 0; i < 100; i++) {
        put_run(store, number++, "make", OUTCOME_SUCCESS, NULL, 7);
        put_run(store, number++, "make", OUTCOME_FAILURE, NULL, 7);
    }
    for (int i = 0; i < 220; i++)
        put_run(store, number++, "make", i % 2 ? OUTCOME_RUNNING : OUTCOME_UNKNOWN, "lost", 1);
    assert_int_equal(estimate(*state, "make", &found), 0);
    assert_int_equal(found.sample_size, 200);
    assert_true(found.cpu_seconds_p95 == 7);
    assert_int_equal(store_close(store), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_no_data),
        T(test_only_finished_runs_of_the_type_count),
        T(test_estimate_of_one_user),
        T(test_latest_finished_runs_are_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
