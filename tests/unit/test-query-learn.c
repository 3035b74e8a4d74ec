/* Learning from stored runs: analyses, their patterns, calibration. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "query/query.h"
#include "store-world.h"

#define DAY 86400.0

static double now;
static struct arena arena;

static int set_up(void **state)
{
    now = WORLD_START;
    return store_fixture_set_up(state);
}

static int tear_down(void **state)
{
    arena_done(&arena);
    return store_fixture_tear_down(state);
}

/* A run that ended `days_ago`. */
static void put_run(struct store *store, double days_ago, bool has_failed, double memory_mb,
                    int64_t uid)
{
    static int number;
    char run_id[32], name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    snprintf(run_id, sizeof(run_id), "run-%d", ++number);
    record_init(&job_record, &job);
    job.run_id = job.job_id = run_id;
    job.job_type = uid == 1000 ? "make" : "train";
    job.uid = uid;
    job.started_at = now - days_ago * DAY - 10;
    assert_int_equal(store_begin_job(store, &job, name), 0);
    job.ended_at = now - days_ago * DAY;
    job.outcome = has_failed ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
    job.profile.wall_seconds = 10;
    job.profile.peak_rss_mb = memory_mb;
    job.profile.cpu_seconds = 1;
    assert_int_equal(store_finish_job(store, &job), 0);
}

/* Runs above 2 GB fail. */
static void plant(struct store *store, double days_ago, int64_t uid)
{
    for (int i = 0; i < 20; i++)
        put_run(store, days_ago, i < 5, i < 5 ? 3000 : 100, uid);
}

static struct analysis analyze(struct store_fixture *fixture, int64_t uid, const char *type,
                               struct pattern_renewal *renewal)
{
    const struct analysis_request request = {
        .now = now, .min_sample_size = 5, .uid = uid, .job_type = type};
    struct store_reader *reader = fixture_reader(fixture);
    struct analysis analysis;

    assert_int_equal(query_analysis(reader, &request, &arena, &analysis, renewal), 0);
    store_reader_close(reader);
    return analysis;
}

static const struct pattern *get(const struct pattern_list *patterns, const char *name)
{
    for (size_t i = 0; i < patterns->count; i++)
        if (strcmp(patterns->items[i].pattern_name, name) == 0)
            return &patterns->items[i];
    return NULL;
}

#define LARGE "[memory_vs_failure] >2GB of make"
#define LEAK  "[memory_leak] make"

static void put_anomaly_pattern(struct store *store)
{
    struct pattern pattern;

    record_init(&pattern_record, &pattern);
    pattern.pattern_type = "RESOURCE_ANOMALY";
    pattern.pattern_name = LEAK;
    assert_int_equal(write_pattern(store, &pattern), 0);
}

/* A pattern is found, stored, found again, and deleted when it no longer holds. */
static void test_patterns_are_stored_and_expire(void **state)
{
    struct store *store = fixture_open(*state);
    struct pattern_renewal renewal;

    put_anomaly_pattern(store);
    plant(store, 1, 1000);
    struct analysis analysis = analyze(*state, INT_UNKNOWN, NULL, &renewal);
    assert_int_equal(analysis.verdict, VERDICT_FOUND);
    assert_int_equal(analysis.runs, 20);
    assert_int_equal(analysis.runs_left_out, 0);
    assert_true(analysis.since == now - 7 * DAY);
    assert_true(renewal.is_due);
    assert_non_null(get(&analysis.patterns, LEAK)); /* all of them are shown */
    const struct pattern *found = get(&analysis.patterns, LARGE);
    assert_non_null(found);
    assert_int_equal(found->occurrences, 1);
    assert_int_equal(store_renew_patterns(store, CORRELATION_PATTERN, &renewal.patterns), 0);

    now += DAY;
    analysis = analyze(*state, INT_UNKNOWN, NULL, &renewal);
    found = get(&analysis.patterns, LARGE);
    assert_int_equal(found->occurrences, 2);
    assert_true(found->first_seen == now - DAY && found->last_seen == now);
    assert_int_equal(store_renew_patterns(store, CORRELATION_PATTERN, &renewal.patterns), 0);

    /* The patterns in the answer are those that are stored afterwards. */
    struct pattern_list stored = {0};
    struct store_reader *reader = fixture_reader(*state);
    assert_int_equal(store_read_patterns(reader, &arena, &stored), 0);
    assert_int_equal(stored.count, analysis.patterns.count);
    assert_same_record(&pattern_record, found, get(&stored, LARGE), "pattern", 0);
    store_reader_close(reader);

    /* From now on size does not matter. */
    now += 5.5 * DAY;
    for (int i = 0; i < 20; i++)
        put_run(store, 0.1, i % 4 == 0, i < 10 ? 3000 : 100, 1000);
    analysis = analyze(*state, INT_UNKNOWN, NULL, &renewal);
    assert_int_equal(analysis.runs, 40 - 20); /* the others ended more than a week ago */
    assert_true(renewal.is_due);
    assert_null(get(&analysis.patterns, LARGE));
    assert_non_null(get(&analysis.patterns, LEAK));
    assert_int_equal(store_renew_patterns(store, CORRELATION_PATTERN, &renewal.patterns), 0);

    assert_int_equal(store_close(store), 0);
}

/* A quiet week proves nothing. */
static void test_too_few_runs_leave_patterns_alone(void **state)
{
    struct store *store = fixture_open(*state);
    struct pattern_renewal renewal;

    plant(store, 1, 1000);
    analyze(*state, INT_UNKNOWN, NULL, &renewal);
    assert_int_equal(store_renew_patterns(store, CORRELATION_PATTERN, &renewal.patterns), 0);
    now += 30 * DAY;
    put_run(store, 1, false, 100, 1000);
    struct analysis analysis = analyze(*state, INT_UNKNOWN, NULL, &renewal);
    assert_int_equal(analysis.verdict, VERDICT_TOO_FEW_RUNS);
    assert_false(renewal.is_due);
    assert_non_null(get(&analysis.patterns, LARGE));
    assert_int_equal(get(&analysis.patterns, LARGE)->occurrences, 1);

    /* Without failures, size is no longer a cause. */
    for (int i = 0; i < 5; i++)
        put_run(store, 1, false, 3000, 1000);
    analysis = analyze(*state, INT_UNKNOWN, NULL, &renewal);
    assert_int_equal(analysis.verdict, VERDICT_ALL_ALIKE);
    assert_true(renewal.is_due);
    assert_null(get(&analysis.patterns, LARGE));
    assert_int_equal(store_close(store), 0);
}

static void test_runs_of_one_user_or_type(void **state)
{
    struct store *store = fixture_open(*state);
    struct pattern_renewal renewal;

    put_anomaly_pattern(store);
    plant(store, 1, 1000);
    for (int i = 0; i < 10; i++)
        put_run(store, 1, i % 2, 100, 1001);
    struct analysis analysis = analyze(*state, 1000, NULL, &renewal);
    assert_int_equal(analysis.runs, 20);
    assert_non_null(get(&analysis.patterns, LARGE));
    assert_null(get(&analysis.patterns, LEAK)); /* its user is unknown */
    assert_false(renewal.is_due);
    analysis = analyze(*state, 1001, NULL, &renewal);
    assert_int_equal(analysis.runs, 10);
    assert_int_equal(analysis.patterns.count, 0);
    analysis = analyze(*state, INT_UNKNOWN, "make", &renewal);
    assert_int_equal(analysis.runs, 20);
    assert_false(renewal.is_due);
    analysis = analyze(*state, INT_UNKNOWN, NULL, &renewal);
    assert_int_equal(analysis.runs, 30);
    assert_true(renewal.is_due);
    assert_int_equal(store_close(store), 0);
}

/* An analysis over all types finds what differs between them, and stores nothing. */
static void test_all_types(void **state)
{
    const struct analysis_request request = {
        .now = now, .min_sample_size = 5, .uid = INT_UNKNOWN, .all_types = true};
    struct store *store = fixture_open(*state);
    struct pattern_renewal renewal;
    struct analysis analysis;

    for (int i = 0; i < 10; i++) {
        put_run(store, 1, true, 3000, 1000);
        put_run(store, 1, false, 100, 1001);
    }
    struct store_reader *reader = fixture_reader(*state);
    assert_int_equal(query_analysis(reader, &request, &arena, &analysis, &renewal), 0);
    assert_int_equal(analysis.verdict, VERDICT_FOUND);
    assert_non_null(get(&analysis.patterns, "[memory_vs_failure] >2GB"));
    assert_null(analysis.correlations.items[0].job_type);
    assert_false(renewal.is_due);
    store_reader_close(reader);
    analysis = analyze(*state, INT_UNKNOWN, NULL, &renewal);
    assert_int_equal(analysis.verdict, VERDICT_ALL_ALIKE);
    assert_int_equal(analysis.patterns.count, 0);
    assert_int_equal(store_close(store), 0);
}

static void test_calibration(void **state)
{
    struct store *store = fixture_open(*state);
    struct calibration_list list = {0};

    for (int i = 0; i < 12; i++)
        put_run(store, 100 - i, false, 100, 1000);
    for (int i = 0; i < 5; i++)
        put_run(store, 100 - i, false, 100 + i, 1001);
    struct store_reader *reader = fixture_reader(*state);
    assert_int_equal(query_calibration(reader, NULL, INT_UNKNOWN, &arena, &list), 0);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.items[0].job_type, "make");
    assert_int_equal(list.items[0].memory.checked, 11);
    assert_int_equal(list.items[0].memory.held, 11);
    assert_string_equal(list.items[1].job_type, "train");
    assert_int_equal(list.items[1].memory.held, 0);
    assert_int_equal(query_calibration(reader, "train", INT_UNKNOWN, &arena, &list), 0);
    assert_int_equal(list.count, 1);
    assert_int_equal(query_calibration(reader, "train", 1000, &arena, &list), 0);
    assert_int_equal(list.count, 0);
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_patterns_are_stored_and_expire),
        TEST(test_too_few_runs_leave_patterns_alone),
        TEST(test_runs_of_one_user_or_type),
        TEST(test_all_types),
        TEST(test_calibration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
