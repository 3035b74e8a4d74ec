/* The store functions for correlation and estimates: digests of runs, and renewal of patterns. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "model/process.h"
#include "store-world.h"

/* ---- digests ---- */

static void put_run(struct store *store, int number, int outcome)
{
    char run_id[32], name[JOB_ID_NUMBERED_MAX_BYTES];
    struct tally calls[] = {{"read", 60}, {"wait4", 40}};
    struct process_event end;
    struct job job;

    init_event(&end);
    end.event_type = EVENT_OOM;
    end.pid = 5;
    end.timestamp = 1000 + number;
    snprintf(run_id, sizeof(run_id), "run-%d", number);
    record_init(&job_record, &job);
    job.run_id = job.job_id = run_id;
    job.job_type = number % 2 ? "odd" : "even";
    job.uid = 1000 + number % 3;
    job.started_at = 1000 + number;
    assert_int_equal(store_begin_job(store, &job, name), 0);
    if (outcome == OUTCOME_RUNNING)
        return;
    job.outcome = outcome;
    job.cause = "because";
    job.chain = (struct process_event_list){&end, 1};
    job.ended_at = job.started_at + 10;
    job.profile.peak_rss_mb = number;
    job.profile.peak_unique_mb = number + 0.5;
    job.profile.cpu_seconds = 2;
    job.profile.wall_seconds = 9;
    job.profile.oom_count = 1;
    job.profile.syscall_hotspots = (struct tally_list){calls, 2};
    job.profile.syscall_source = SYSCALLS_STRACE;
    assert_int_equal(store_finish_job(store, &job), 0);
}

static void put_anomaly(struct store *store, int number, const char *type, double at)
{
    char run_id[32];
    struct anomaly anomaly;

    snprintf(run_id, sizeof(run_id), "run-%d", number);
    init_anomaly(&anomaly);
    anomaly.timestamp = at;
    anomaly.anomaly_type = type;
    anomaly.run_id = run_id;
    assert_int_equal(write_anomaly(store, &anomaly), 0);
}

#define SEEN_MAX 16

static struct {
    int numbers[SEEN_MAX];
    size_t count;
    size_t anomalies;
    bool has_calls;
    bool has_chain;
    size_t stop_at;
} seen;

static int note(void *context _unused_, const struct run_digest *run)
{
    const struct job *job = &run->job;

    assert_true(seen.count < SEEN_MAX);
    seen.numbers[seen.count++] = (int)job->profile.peak_rss_mb;
    seen.anomalies += run->anomaly_types.count;
    seen.has_calls = job->profile.syscall_hotspots.count > 0;
    seen.has_chain = job->chain.count == 1 && job->chain.items[0].event_type == EVENT_OOM;
    return seen.count == seen.stop_at ? -EDOM : 0;
}

static int visit(struct store_fixture *fixture, const struct digest_filter *filter)
{
    struct store_reader *reader = fixture_reader(fixture);

    memset(&seen, 0, sizeof(seen.numbers));
    seen.count = seen.anomalies = 0;
    int r = store_visit_digests(reader, filter, note, NULL);
    if (r < 0)
        assert_true(strlen(store_reader_error(reader)) > 0);
    store_reader_close(reader);
    return r;
}

static void assert_seen(const int *numbers, size_t count)
{
    assert_int_equal(seen.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(seen.numbers[i], numbers[i]);
}

#define ASSERT_SEEN(...) assert_seen((int[]){__VA_ARGS__}, ARRAY_SIZE(((int[]){__VA_ARGS__})))

#define ALL_DIGESTS                                                                                \
    ((struct digest_filter){.since = REAL_UNKNOWN, .uid = INT_UNKNOWN, .with_details = true})

static void test_digests_of_ended_runs(void **state)
{
    struct store *store = fixture_open(*state);
    struct digest_filter filter = ALL_DIGESTS;

    for (int i = 1; i <= 6; i++)
        put_run(store, i, i == 4 ? OUTCOME_RUNNING : i % 2 ? OUTCOME_SUCCESS : OUTCOME_FAILURE);
    assert_int_equal(visit(*state, &filter), 0);
    ASSERT_SEEN(6, 5, 3, 2, 1);
    assert_true(seen.has_calls);
    filter.limit = 2;
    assert_int_equal(visit(*state, &filter), 0);
    ASSERT_SEEN(6, 5);
    filter = ALL_DIGESTS;
    filter.since = 1013; /* the third ended then */
    assert_int_equal(visit(*state, &filter), 0);
    ASSERT_SEEN(6, 5, 3);
    filter = ALL_DIGESTS;
    filter.job_type = "odd";
    assert_int_equal(visit(*state, &filter), 0);
    ASSERT_SEEN(5, 3, 1);
    filter.uid = 1000;
    assert_int_equal(visit(*state, &filter), 0);
    ASSERT_SEEN(3);
    filter.with_details = false;
    assert_int_equal(visit(*state, &filter), 0);
    ASSERT_SEEN(3);
    assert_false(seen.has_calls);
    assert_false(seen.has_chain);
    filter.with_chain = true;
    assert_int_equal(visit(*state, &filter), 0);
    ASSERT_SEEN(3);
    assert_true(seen.has_chain);
    assert_int_equal(store_close(store), 0);
}

static int check_digest(void *context, const struct run_digest *run)
{
    const struct job *job = &run->job;
    size_t *count = context;

    ++*count;
    assert_string_equal(job->job_type, "odd");
    assert_int_equal(job->outcome, OUTCOME_FAILURE);
    assert_string_equal(job->cause, "because");
    assert_true(job->started_at == 1007 && job->ended_at == 1017);
    assert_true(job->profile.peak_unique_mb == 7.5);
    assert_true(job->profile.cpu_seconds == 2 && job->profile.wall_seconds == 9);
    assert_int_equal(job->profile.oom_count, 1);
    assert_int_equal(job->profile.syscall_source, SYSCALLS_STRACE);
    assert_int_equal(job->profile.syscall_hotspots.count, 2);
    assert_int_equal(run->anomaly_types.count, 2);
    bool is_first = strcmp(run->anomaly_types.items[0], "zombie") == 0;
    assert_string_equal(run->anomaly_types.items[is_first], "memory_leak");
    assert_string_equal(run->anomaly_types.items[!is_first], "zombie");
    return 0;
}

static void test_digest_fields(void **state)
{
    struct store *store = fixture_open(*state);
    struct store_reader *reader;
    size_t count = 0;

    put_run(store, 7, OUTCOME_FAILURE);
    put_anomaly(store, 7, "zombie", 1);
    put_anomaly(store, 7, "memory_leak", 2);
    put_anomaly(store, 7, "zombie", 3); /* each type once */
    put_anomaly(store, 8, "stuck_process", 4);
    reader = fixture_reader(*state);
    assert_int_equal(store_visit_digests(reader, &ALL_DIGESTS, check_digest, &count), 0);
    assert_int_equal(count, 1);
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
}

static void test_visitor_error_ends_iteration(void **state)
{
    struct store *store = fixture_open(*state);
    const struct digest_filter filter = ALL_DIGESTS;

    for (int i = 1; i <= 5; i++)
        put_run(store, i, OUTCOME_SUCCESS);
    seen.stop_at = 2;
    assert_int_equal(visit(*state, &filter), -EDOM);
    seen.stop_at = 0;
    ASSERT_SEEN(5, 4);
    assert_int_equal(visit(*state, &filter), 0);
    assert_int_equal(seen.count, 5);
    assert_int_equal(store_close(store), 0);
}

static void test_unexpected_data_is_reported(void **state)
{
    struct store *store = fixture_open(*state);
    const struct digest_filter filter = ALL_DIGESTS;

    put_run(store, 1, OUTCOME_SUCCESS);
    assert_int_equal(store_close(store), 0);
    sqlite3 *handle = fixture_sqlite(*state);
    run_sql(handle, "UPDATE jobs SET syscall_hotspots = '[not JSON'");
    sqlite3_close(handle);
    assert_int_equal(visit(*state, &filter), -EBADMSG);
}

/* Its runs have no syscall_source. */
static void test_migration_from_version_3(void **state)
{
    struct store *store = fixture_open(*state);
    const struct digest_filter filter = ALL_DIGESTS;

    put_run(store, 1, OUTCOME_SUCCESS);
    assert_int_equal(store_close(store), 0);
    sqlite3 *handle = fixture_sqlite(*state);
    run_sql(handle,
            TO_VERSION_4 "ALTER TABLE jobs DROP COLUMN syscall_source; PRAGMA user_version = 3");
    sqlite3_close(handle);
    store = fixture_open(*state);
    put_run(store, 2, OUTCOME_SUCCESS);
    assert_int_equal(visit(*state, &filter), 0);
    ASSERT_SEEN(2, 1);
    assert_int_equal(store_close(store), 0);
    handle = fixture_sqlite(*state);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM jobs WHERE syscall_source IS NULL"), 1);
    sqlite3_close(handle);
}

/* ---- patterns ---- */

static struct pattern make_pattern(const char *type, const char *name, double at)
{
    struct pattern pattern;

    record_init(&pattern_record, &pattern);
    pattern.pattern_type = type;
    pattern.pattern_name = name;
    pattern.first_seen = pattern.last_seen = at;
    pattern.occurrences = 1;
    pattern.confidence = at / 1000;
    return pattern;
}

static struct pattern_list read_patterns(struct store_fixture *fixture, struct arena *arena)
{
    struct store_reader *reader = fixture_reader(fixture);
    struct pattern_list found = {0};

    assert_int_equal(store_read_patterns(reader, arena, &found), 0);
    store_reader_close(reader);
    return found;
}

/* `renew` works with a session, or without one. */
static void check_renewal(struct store_fixture *fixture,
                          int (*renew)(struct store_fixture *fixture, const struct pattern_list *))
{
    struct arena arena = {0};
    struct pattern now[] = {make_pattern("B", "one", 100), make_pattern("B", "two", 100)};
    struct pattern other = make_pattern("A", "three", 50);
    struct store *store = fixture_open(fixture);

    assert_int_equal(write_pattern(store, &other), 0);
    assert_int_equal(store_close(store), 0);
    assert_int_equal(renew(fixture, &(struct pattern_list){now, 2}), 0);
    assert_int_equal(read_patterns(fixture, &arena).count, 3);

    now[0] = make_pattern("B", "two", 200);
    now[1] = make_pattern("B", "four", 200);
    assert_int_equal(renew(fixture, &(struct pattern_list){now, 2}), 0);
    struct pattern_list found = read_patterns(fixture, &arena);
    assert_int_equal(found.count, 3); /* "one" was deleted; "A" is another type */
    assert_string_equal(found.items[0].pattern_name, "three");
    assert_string_equal(found.items[1].pattern_name, "four");
    assert_int_equal(found.items[1].occurrences, 1);
    assert_string_equal(found.items[2].pattern_name, "two");
    assert_true(found.items[2].first_seen == 100 && found.items[2].last_seen == 200);
    assert_int_equal(found.items[2].occurrences, 2);
    assert_true(found.items[2].confidence == 0.2);

    assert_int_equal(renew(fixture, &(struct pattern_list){NULL, 0}), 0);
    found = read_patterns(fixture, &arena);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.items[0].pattern_type, "A");
    arena_done(&arena);
}

static int renew_in_a_session(struct store_fixture *fixture, const struct pattern_list *patterns)
{
    struct store *store = fixture_open(fixture);

    int r = store_renew_patterns(store, "B", patterns);
    assert_int_equal(store_close(store), 0);
    return r;
}

static int renew_without(struct store_fixture *fixture, const struct pattern_list *patterns)
{
    struct store_error error;

    return store_renew_patterns_at(fixture->path, "B", patterns, &error);
}

static void test_patterns_are_renewed(void **state)
{
    check_renewal(*state, renew_in_a_session);
}

static void test_patterns_are_renewed_without_a_session(void **state)
{
    struct store_fixture *fixture = *state;

    check_renewal(fixture, renew_without);
    sqlite3 *handle = fixture_sqlite(fixture);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM sessions"), 1); /* the test's own */
    sqlite3_close(handle);
}

static void test_renewal_at_the_limit(void **state)
{
    static struct pattern many[PATTERNS_RENEWED_MAX];
    static char names[PATTERNS_RENEWED_MAX][16];
    struct arena arena = {0};
    struct store *store = fixture_open(*state);

    for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
        snprintf(names[i], sizeof(names[i]), "%zu", i);
        many[i] = make_pattern("B", names[i], 1);
    }
    assert_int_equal(
        store_renew_patterns(store, "B", &(struct pattern_list){many, ARRAY_SIZE(many)}), 0);
    assert_int_equal(read_patterns(*state, &arena).count, ARRAY_SIZE(many));
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
}

static void test_renewal_without_a_database(void **state)
{
    struct store_fixture *fixture = *state;
    struct pattern pattern = make_pattern("B", "one", 100);
    struct store_error error = {""};
    struct stat status;

    assert_int_equal(
        store_renew_patterns_at(fixture->path, "B", &(struct pattern_list){&pattern, 1}, &error),
        -ENOENT);
    assert_non_null(strstr(error.text, fixture->path));
    assert_int_equal(stat(fixture->path, &status), -1);
}

int main(void)
{
#define TEST(function)                                                                             \
    cmocka_unit_test_setup_teardown(function, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_digests_of_ended_runs),
        TEST(test_digest_fields),
        TEST(test_visitor_error_ends_iteration),
        TEST(test_unexpected_data_is_reported),
        TEST(test_migration_from_version_3),
        TEST(test_patterns_are_renewed),
        TEST(test_patterns_are_renewed_without_a_session),
        TEST(test_renewal_at_the_limit),
        TEST(test_renewal_without_a_database),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
