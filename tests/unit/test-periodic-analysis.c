/* The daemon's analyses: at their interval, in another thread, whether they succeed or fail. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "daemon/periodic-analysis.h"
#include "store-world.h"
#include "writer/store-writer.h"

#define EVERY_MS 5
#define PATIENCE (120 * NS_PER_SEC)

static uv_loop_t loop;
static struct query_thread *thread;
static struct periodic_analysis *analysis;
static struct store_writer *writer;

static int set_up(void **state)
{
    assert_int_equal(uv_loop_init(&loop), 0);
    thread = NULL;
    analysis = NULL;
    writer = NULL;
    return store_fixture_set_up(state);
}

static void begin(struct store_fixture *fixture, uint64_t every_ms, int64_t min_sample_size)
{
    assert_int_equal(query_thread_start(&loop, writer, fixture->path, &thread), 0);
    const struct periodic_analysis_options options = {
        .thread = thread, .every_ms = every_ms, .min_sample_size = min_sample_size};
    assert_int_equal(periodic_analysis_start(&loop, &options, &analysis), 0);
}

static int tear_down(void **state)
{
    struct store_report report;

    periodic_analysis_close(analysis);
    query_thread_stop(thread);
    if (writer)
        store_writer_stop(writer, &report);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return store_fixture_tear_down(state);
}

static void start_writer(const struct store_fixture *fixture)
{
    const struct store_writer_options options = {.store = fixture->options};

    assert_int_equal(store_writer_start(&options, &writer), 0);
    assert_true(store_writer_wait(writer, PATIENCE));
}

static struct periodic_analysis_counts counts(void)
{
    struct periodic_analysis_counts found;

    periodic_analysis_counts(analysis, &found);
    return found;
}

/* Lets the loop run until `condition` holds. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        uint64_t until_ = clock_mono_ns() + PATIENCE;                                              \
        while (!(condition) && clock_mono_ns() < until_)                                           \
            uv_run(&loop, UV_RUN_ONCE);                                                            \
        assert_true(condition);                                                                    \
    } while (0)

/* Runs above 2 GB fail. */
static void plant(void)
{
    double now = ns_to_sec(clock_real_ns());

    for (int i = 0; i < 20; i++) {
        char run_id[32];
        struct job job;
        snprintf(run_id, sizeof(run_id), "run-%d", i);
        record_init(&job_record, &job);
        job.run_id = job.job_id = run_id;
        job.job_type = "make";
        job.uid = 1000;
        job.started_at = now - 100;
        assert_int_equal(store_writer_begin_job(writer, &job), 0);
        job.ended_at = now - 90;
        job.outcome = i < 5 ? OUTCOME_FAILURE : OUTCOME_SUCCESS;
        job.profile.peak_rss_mb = i < 5 ? 3000 : 100;
        assert_int_equal(store_writer_finish_job(writer, &job), 0);
    }
    assert_true(store_writer_wait(writer, PATIENCE));
}

static struct pattern_list read_patterns(const struct store_fixture *fixture, struct arena *arena)
{
    struct store_reader *reader = fixture_reader(fixture);
    struct pattern_list found = {0};

    assert_true(store_writer_wait(writer, PATIENCE));
    assert_int_equal(store_read_patterns(reader, arena, &found), 0);
    store_reader_close(reader);
    return found;
}

static void test_patterns_are_stored(void **state)
{
    struct arena arena = {0};

    start_writer(*state);
    plant();
    begin(*state, EVERY_MS, 5);
    assert_int_equal(counts().done, 0); /* the first runs after one interval */
    assert_false(real_is_known(counts().last_at));
    AWAIT(counts().done >= 3);
    assert_int_equal(counts().failed, 0);
    assert_null(counts().last_error);
    assert_true(counts().last_at > 1e9);
    struct pattern_list found = read_patterns(*state, &arena);
    assert_int_equal(found.count, 2); /* large ones fail, small ones do not */
    assert_string_equal(found.items[1].pattern_name, "[memory_vs_failure] >2GB of make");
    assert_true(found.items[1].occurrences >= 2); /* once for each that was written by now */
    assert_string_equal(found.items[1].pattern_type, "RESOURCE_CORRELATION");
    arena_done(&arena);
}

/* There is no database at first; then there is one. */
static void test_analyses_continue_after_a_failure(void **state)
{
    struct arena arena = {0};

    begin(*state, EVERY_MS, 5);
    AWAIT(counts().failed >= 3);
    assert_int_equal(counts().done, 0);
    assert_non_null(counts().last_error);
    start_writer(*state);
    plant();
    AWAIT(counts().done >= 2);
    assert_null(counts().last_error);
    /* The query thread had no writer then: nothing is stored, without an error. */
    assert_int_equal(read_patterns(*state, &arena).count, 0);
    arena_done(&arena);
}

static void test_interval_can_change(void **state)
{
    start_writer(*state);
    begin(*state, 3600 * 1000, 5);
    for (int i = 0; i < 5; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(counts().done + counts().failed, 0);
    periodic_analysis_configure(analysis, EVERY_MS, 7);
    AWAIT(counts().done >= 1);
}

static void test_close_during_a_query(void **state)
{
    start_writer(*state);
    plant();
    begin(*state, 1, 5);
    AWAIT(counts().done >= 1);
    usleep(2000); /* so that the timer is due */
    uv_run(&loop, UV_RUN_NOWAIT);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_patterns_are_stored),
        TEST(test_analyses_continue_after_a_failure),
        TEST(test_interval_can_change),
        TEST(test_close_during_a_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
