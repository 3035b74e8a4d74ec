/* Another session takes a run over: after the first one has died or ended, while it lives, and
 * back again. The figures continue, and nothing counts twice. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "store-world.h"

#define RUN "01900000-0000-7000-8000-00000000000a"

/* ---- a small machine ---- */

struct sight {
    int64_t pid;
    uint64_t start_ticks;
    double cpu_seconds;
    int64_t read_bytes;
    int64_t sheet_num;
};

static void add_process(const struct sight *sight, struct process_metric *process)
{
    record_init(&process_metric_record, process);
    process->pid = sight->pid;
    process->start_ticks = sight->start_ticks;
    process->cpu_seconds = sight->cpu_seconds;
    process->read_bytes = sight->read_bytes;
    process->sheet_num = sight->sheet_num;
    process->command = "make all";
    process->run_id = RUN;
    process->job_id = "build";
    process->rss_mb = 10;
    process->state = 'S';
}

/* The samples of the run, and its CPU time according to its account. */
static void write_sights(struct store *store, double cpu_seconds, const struct sight *sights,
                         size_t count)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    struct process_metric processes[8];
    struct job_usage usage;

    record_init(&job_usage_record, &usage);
    usage.run_id = RUN;
    usage.job_id = "build";
    usage.cpu_seconds = cpu_seconds;
    for (size_t i = 0; i < count; i++)
        add_process(&sights[i], &processes[i]);
    snapshot->processes = (struct process_list){processes, count};
    snapshot->jobs = (struct job_usage_list){&usage, 1};
    fixture_stamp(snapshot);
    write_snapshot(store, snapshot);
}

#define WRITE(store, cpu, ...)                                                                     \
    write_sights(store, cpu, (const struct sight[]){__VA_ARGS__},                                  \
                 ARRAY_SIZE(((const struct sight[]){__VA_ARGS__})))

static const char *begin(struct store *store)
{
    static char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = RUN;
    job.job_id = "build";
    job.started_at = 1000;
    job.uid = 1000;
    if (store_begin_job(store, &job, name) < 0)
        fail_msg("%s", store_error(store));
    return name;
}

static struct job find(const struct store_fixture *fixture, struct arena *arena)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct job job;

    assert_int_equal(store_find_job(reader, RUN, arena, &job), 0);
    return job;
}

static void check_outcome(const struct store_fixture *fixture, int outcome, const char *cause)
{
    struct arena arena = {0};
    struct job job = find(fixture, &arena);

    assert_int_equal(job.outcome, outcome);
    if (cause)
        assert_string_equal(job.cause, cause);
    else
        assert_null(job.cause);
    if (outcome == OUTCOME_RUNNING)
        assert_false(real_is_known(job.ended_at));
    arena_done(&arena);
}

static void check_figures(const struct store_fixture *fixture, double cpu_seconds,
                          int64_t processes, int64_t read_bytes, int64_t samples)
{
    struct arena arena = {0};
    struct job job = find(fixture, &arena);

    assert_near(job.profile.cpu_seconds, cpu_seconds, 0.002);
    assert_int_equal(job.profile.unique_pid_count, processes);
    assert_int_equal(job.profile.read_bytes, read_bytes);
    assert_int_equal(job.profile.num_samples, samples);
    arena_done(&arena);
}

static double sheet_cpu(const struct store_fixture *fixture, int64_t sheet_num)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct sheet_list sheets = {0};
    struct arena arena = {0};
    double cpu_seconds = REAL_UNKNOWN;

    assert_int_equal(store_read_sheets(reader, RUN, &arena, &sheets), 0);
    for (size_t i = 0; i < sheets.count; i++)
        if (sheets.items[i].sheet_num == sheet_num)
            cpu_seconds = sheets.items[i].cpu_seconds;
    arena_done(&arena);
    return cpu_seconds;
}

/* ---- from a dead writer ---- */

static void write_first_part(struct store *store)
{
    begin(store);
    WRITE(store, 1, {10, 100, 0.5, 1000, 1}, {11, 110, 0.5, 500, 2});
    WRITE(store, 5, {10, 100, 2, 3000, 1}, {11, 110, 1, 700, 2}, {12, 120, 2, 10, 1});
    WRITE(store, 8, {10, 100, 3, 4000, 1}, {11, 110, 2, 900, 2});
}

/* The two living processes have used 5 of the 8 s, then 6: the new account begins with that. Only
 * the samples of a living writer may not be counted yet. */
static void go_on(struct store_fixture *fixture, struct store *store, int64_t samples)
{
    assert_string_equal(begin(store), "build");
    check_outcome(fixture, OUTCOME_RUNNING, NULL);
    WRITE(store, 6, {10, 100, 3.5, 4500, 1}, {11, 110, 2.5, 900, 2});
    check_figures(fixture, 8, 3, 5410, samples + 1);
    WRITE(store, 9, {10, 100, 4, 4600, 1}, {11, 110, 3.5, 900, 2}, {13, 300, 1.5, 50, 2});
    check_figures(fixture, 11, 4, 5560, samples + 2);
    /* a reused pid: all its CPU time is new */
    WRITE(store, 10, {10, 333, 0.5, 7, 1}, {11, 110, 3.5, 900, 2}, {13, 300, 2, 50, 2});
    check_figures(fixture, 12, 5, 5567, samples + 3);
    assert_near(sheet_cpu(fixture, 1), 2 + 4 + 0.5, 0.002);
    assert_near(sheet_cpu(fixture, 2), 3.5 + 2, 0.002);
}

static void check_lower_bounds(struct store_fixture *fixture)
{
    struct arena arena = {0};
    struct job job = find(fixture, &arena);

    assert_int_equal(job.profile.exactness.cpu_seconds, LOWER_BOUND);
    assert_int_equal(job.profile.exactness.processes, LOWER_BOUND);
    assert_true(job.started_at == 1000);
    assert_int_equal(job.uid, 1000);
    arena_done(&arena);
}

static void test_takeover_from_a_dead_writer(void **state)
{
    fixture_die_after(*state, write_first_part, 100);
    check_outcome(*state, OUTCOME_UNKNOWN, "lost");
    struct store *store = fixture_open(*state);
    go_on(*state, store, 3);
    check_lower_bounds(*state);
    assert_int_equal(store_close(store), 0);
    check_outcome(*state, OUTCOME_UNKNOWN, "lost");
    check_figures(*state, 12, 5, 5567, 6);
}

/* This session was open before the other one died, which is not recorded yet. */
static void test_takeover_while_the_writer_dies(void **state)
{
    struct store *store = fixture_open(*state);

    fixture_die_after(*state, write_first_part, 100);
    go_on(*state, store, 3);
    assert_int_equal(store_close(store), 0);
}

static void test_takeover_from_an_ended_writer(void **state)
{
    struct store *store = fixture_open(*state);

    write_first_part(store);
    assert_int_equal(store_close(store), 0);
    check_outcome(*state, OUTCOME_UNKNOWN, "lost");
    store = fixture_open(*state);
    go_on(*state, store, 3);
    check_lower_bounds(*state);
    assert_int_equal(store_close(store), 0);
}

/* ---- from a living writer ---- */

static void test_takeover_from_a_living_writer(void **state)
{
    struct store *one = fixture_open(*state), *other = fixture_open(*state);

    write_first_part(one);
    go_on(*state, other, 2);
    /* late figures of the first session do not lower anything */
    WRITE(one, 8.5, {10, 100, 3.1, 4000, 1}, {11, 110, 2.1, 900, 2});
    check_figures(*state, 12, 5, 5567, 5);
    assert_near(sheet_cpu(*state, 1), 6.5, 0.002);
    assert_int_equal(store_close(one), 0);
    check_outcome(*state, OUTCOME_RUNNING, NULL);
    WRITE(other, 11, {11, 110, 4, 900, 2});
    check_figures(*state, 13, 5, 5567, 6);
    assert_int_equal(store_close(other), 0);
    check_outcome(*state, OUTCOME_UNKNOWN, "lost");
}

/* … and back to the first, which has no newer samples. */
static void test_takeover_there_and_back(void **state)
{
    struct store *one = fixture_open(*state), *other = fixture_open(*state);

    write_first_part(one);
    go_on(*state, other, 2);
    assert_string_equal(begin(one), "build");
    assert_int_equal(store_close(other), 0);
    check_outcome(*state, OUTCOME_RUNNING, NULL);
    WRITE(one, 13, {11, 110, 4.5, 950, 2}, {13, 300, 3, 60, 2});
    check_figures(*state, 13, 5, 5627, 6);
    WRITE(one, 14, {11, 110, 5, 950, 2}, {13, 300, 3.5, 60, 2});
    check_figures(*state, 14, 5, 5627, 7);
    assert_near(sheet_cpu(*state, 2), 5 + 3.5, 0.002);
    assert_int_equal(store_close(one), 0);
}

/* ---- three in turn ---- */

static void begin_only(struct store *store)
{
    begin(store);
}

static void test_three_writers_in_turn(void **state)
{
    fixture_die_after(*state, write_first_part, 100);
    fixture_die_after(*state, begin_only, 100); /* before it has written any sample */
    struct store *store = fixture_open(*state);
    go_on(*state, store, 3);
    assert_int_equal(store_close(store), 0);
    sqlite3 *handle = fixture_sqlite(*state);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM turns"), 2);
    sqlite3_close(handle);
}

static void write_second_part(struct store *store)
{
    begin(store);
    WRITE(store, 6, {10, 100, 3.5, 4500, 1}, {11, 110, 2.5, 900, 2});
    WRITE(store, 7, {10, 100, 4.5, 4500, 1}, {11, 110, 2.5, 900, 2});
}

/* The usage up to its last snapshot is stored, however it ends. */
static void test_second_writer_dies_too(void **state)
{
    struct store_fixture *fixture = *state;

    fixture_die_after(fixture, write_first_part, 100);
    fixture_die_after(fixture, write_second_part, 100);
    struct store *store = fixture_open(fixture);
    check_figures(fixture, 9, 3, 5410, 5);
    begin(store);
    WRITE(store, 7.5, {10, 100, 5, 4500, 1}, {11, 110, 2.5, 900, 2});
    WRITE(store, 8, {10, 100, 5.5, 4500, 1}, {11, 110, 2.5, 900, 2});
    check_figures(fixture, 9.5, 3, 5410, 7);
    assert_near(sheet_cpu(fixture, 1), 2 + 5.5, 0.002);
    assert_int_equal(store_close(store), 0);
}

/* A failed transaction counts nothing and does not lose the inherited processes. */
static void test_failed_transactions_during_takeover(void **state)
{
    struct process_event event;

    fixture_die_after(*state, write_first_part, 100);
    struct store *store = fixture_open(*state);
    assert_string_equal(begin(store), "build");
    assert_string_equal(begin(store), "build"); /* the first call failed */
    init_event(&event);
    event.timestamp = fixture_now;
    event.pid = 10;
    event.event_type = EVENT_SPAWN;
    event.job_id = "bad";
    event.run_id = "this is far too long to be the number of any run there ever was";
    struct tick tick = {.events = {&event, 1}};
    for (int i = 0; i < 3; i++)
        assert_int_equal(store_write_tick(store, &tick), -EINVAL);
    struct process_metric processes[3];
    add_process(&(struct sight){10, 100, 3.5, 4500, 1}, &processes[0]);
    add_process(&(struct sight){11, 110, 2.5, 900, 2}, &processes[1]);
    add_process(&(struct sight){99, 110, 2.5, 900, 2}, &processes[2]);
    processes[2].run_id = event.run_id;
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    snapshot->processes = (struct process_list){processes, 3};
    snapshot->timestamp = fixture_now;
    tick = (struct tick){.snapshot = snapshot};
    assert_int_equal(store_write_tick(store, &tick), -EINVAL);
    snapshot->processes = (struct process_list){0};
    WRITE(store, 6, {10, 100, 3.5, 4500, 1}, {11, 110, 2.5, 900, 2});
    check_figures(*state, 8, 3, 5410, 4);
    assert_near(sheet_cpu(*state, 1), 2 + 3.5, 0.002);
    assert_int_equal(store_close(store), 0);
}

/* ---- names and ends ---- */

static void test_run_keeps_its_name(void **state)
{
    struct store *one = fixture_open(*state), *other = fixture_open(*state);
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = "first";
    job.job_id = "build";
    job.uid = 1000;
    job.started_at = 900;
    assert_int_equal(store_begin_job(one, &job, name), 0);
    assert_string_equal(begin(one), "build-2");
    job.outcome = OUTCOME_SUCCESS;
    job.ended_at = 950;
    assert_int_equal(store_finish_job(one, &job), 0);
    assert_string_equal(begin(other), "build-2");
    assert_string_equal(begin(one), "build-2");
    assert_int_equal(store_close(other), 0);
    check_outcome(*state, OUTCOME_RUNNING, NULL);
    assert_int_equal(store_close(one), 0);
}

static void test_ended_run_is_not_changed(void **state)
{
    static const struct {
        int outcome;
        const char *cause;
    } ends[] = {{OUTCOME_SUCCESS, NULL},
                {OUTCOME_FAILURE, "exit status 1"},
                {OUTCOME_UNKNOWN, "its root was not seen to end"}};

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        struct store_fixture *fixture;
        struct job job;

        store_fixture_set_up((void **)&fixture);
        struct store *one = fixture_open(fixture), *other = fixture_open(fixture);
        write_first_part(one);
        record_init(&job_record, &job);
        job.run_id = RUN;
        job.outcome = ends[i].outcome;
        job.cause = ends[i].cause;
        job.ended_at = 2000;
        assert_int_equal(store_finish_job(one, &job), 0);
        assert_string_equal(begin(other), "build");
        check_outcome(fixture, ends[i].outcome, ends[i].cause);
        WRITE(other, 99, {10, 100, 9, 9000, 1});
        check_figures(fixture, 8, 3, 4910, 3);
        assert_int_equal(store_close(one), 0);
        assert_int_equal(store_close(other), 0);
        check_outcome(fixture, ends[i].outcome, ends[i].cause);
        store_fixture_tear_down((void **)&fixture);
    }
    (void)state;
}

static void finish(struct store_fixture *fixture, int exactness, double expected_cpu,
                   int64_t expected_samples)
{
    struct arena arena = {0};
    struct job job;

    struct store *store = fixture_open(fixture);
    write_first_part(store);
    assert_int_equal(store_close(store), 0);
    store = fixture_open(fixture);
    begin(store);
    WRITE(store, 6, {10, 100, 3.5, 4500, 1});
    record_init(&job_record, &job);
    job.run_id = RUN;
    job.outcome = OUTCOME_SUCCESS;
    job.ended_at = 2000;
    job.profile.cpu_seconds = 7.5;
    job.profile.peak_rss_mb = 99;
    job.profile.num_samples = 1;
    job.profile.exactness.cpu_seconds = exactness;
    assert_int_equal(store_finish_job(store, &job), 0);
    assert_int_equal(store_close(store), 0);
    job = find(fixture, &arena);
    assert_int_equal(job.outcome, OUTCOME_SUCCESS);
    assert_near(job.profile.cpu_seconds, expected_cpu, 0.002);
    assert_near(job.profile.peak_rss_mb, 99, 0.002);
    assert_int_equal(job.profile.num_samples, expected_samples);
    assert_int_equal(job.profile.exactness.cpu_seconds, exactness == EXACT ? EXACT : LOWER_BOUND);
    assert_int_equal(job.profile.exactness.processes, LOWER_BOUND);
    arena_done(&arena);
}

static void test_exact_figures_replace(void **state)
{
    finish(*state, EXACT, 7.5, 4);
}

static void test_smaller_figures_are_ignored(void **state)
{
    finish(*state, SAMPLED, 8, 4);
}

/* ---- gaps ---- */

static void write_ten_minutes_ago(struct store *store)
{
    struct gap gap = {.kind = GAP_SUSPEND,
                      .timestamp = fixture_now = ns_to_sec(clock_real_ns()) - 600};

    write_first_part(store);
    assert_int_equal(store_write_tick(store, &(struct tick){.gaps = {&gap, 1}}), 0);
}

/* The time between two writers is a gap; a run has the gaps of all its writers. */
static void test_gap_between_writers(void **state)
{
    struct store_fixture *fixture = *state;
    struct gap_list gaps = {0};
    struct arena arena = {0};

    fixture_die_after(fixture, write_ten_minutes_ago, 100);
    struct store *store = fixture_open(fixture);
    begin(store);
    begin(store);
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    assert_int_equal(store_read_gaps(reader, RUN, REAL_UNKNOWN, REAL_UNKNOWN, &arena, &gaps), 0);
    assert_int_equal(gaps.count, 2);
    assert_int_equal(gaps.items[0].kind, GAP_SUSPEND);
    assert_int_equal(gaps.items[1].kind, GAP_MISSED_TICKS);
    assert_true(fabs(gaps.items[1].seconds - 585) < 60); /* the last of three was at 15 */
    assert_non_null(gaps.items[1].reason);
    assert_int_equal(store_close(store), 0);
    arena_done(&arena);
}

/* ---- events beside a writer that keeps the run ---- */

/* The events and gaps that a `sonde run` stores while a daemon stores the samples. */
static void write_beside(struct store *store, struct process_event *events, size_t event_count,
                         struct gap *gaps, size_t gap_count)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();

    fixture_stamp(snapshot);
    assert_int_equal(store_write_tick(store, &(struct tick){.snapshot = snapshot,
                                                            .events = {events, event_count},
                                                            .gaps = {gaps, gap_count},
                                                            .beside_run = RUN}),
                     0);
}

static struct process_event make_exec(int64_t pid, double timestamp)
{
    struct process_event event;

    init_event(&event);
    event.timestamp = timestamp;
    event.pid = pid;
    event.event_type = EVENT_EXEC;
    event.run_id = RUN;
    event.job_id = "build";
    return event;
}

static size_t count_gaps(struct store_fixture *fixture, const char *run_id)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct gap_list gaps = {0};
    struct arena arena = {0};

    assert_int_equal(store_read_gaps(reader, run_id, REAL_UNKNOWN, REAL_UNKNOWN, &arena, &gaps), 0);
    arena_done(&arena);
    return gaps.count;
}

/* They belong to that run only. */
static void test_gaps_of_a_session_with_events_only(void **state)
{
    static const char other_run[] = "01900000-0000-7000-8000-00000000000b";
    struct store *daemon = fixture_open(*state), *client = fixture_open(*state);
    struct gap gap = {.kind = GAP_EVENTS, .timestamp = fixture_now, .lost = 7};
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = other_run;
    job.job_id = "other";
    job.started_at = 1000;
    assert_int_equal(store_begin_job(daemon, &job, name), 0);
    write_beside(client, NULL, 0, &gap, 1); /* before the daemon has stored the run */
    write_first_part(daemon);
    assert_int_equal(count_gaps(*state, RUN), 0);
    write_beside(client, NULL, 0, &gap, 1);
    write_beside(client, NULL, 0, NULL, 0);
    assert_int_equal(count_gaps(*state, RUN), 2);
    assert_int_equal(count_gaps(*state, other_run), 0);

    sqlite3 *handle = fixture_sqlite(*state);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM turns"), 1);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM snap WHERE is_minute = 0"), 3);
    sqlite3_close(handle);
    assert_int_equal(store_close(client), 0);
    check_outcome(*state, OUTCOME_RUNNING, NULL);
    assert_int_equal(store_close(daemon), 0);
}

/* Some seconds after a takeover, events are no longer compared with stored ones. */
static void test_repetitions_end_for_a_session_with_events_only(void **state)
{
    struct store *daemon = fixture_open(*state), *client = fixture_open(*state);
    struct process_event twice[2];

    begin(daemon);
    begin(client);
    begin(daemon);
    for (int i = 0; i < 100; i++) {
        twice[0] = make_exec(10, fixture_now);
        twice[1] = make_exec(10, fixture_now + 0.002); /* like a script and its interpreter */
        write_beside(client, twice, i == 0 || i == 99 ? 2 : 0, NULL, 0);
    }
    sqlite3 *handle = fixture_sqlite(*state);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM event WHERE event_type = 'exec'"), 3);
    sqlite3_close(handle);
    assert_int_equal(store_close(client), 0);
    assert_int_equal(store_close(daemon), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_takeover_from_a_dead_writer),
        T(test_takeover_while_the_writer_dies),
        T(test_takeover_from_an_ended_writer),
        T(test_takeover_from_a_living_writer),
        T(test_takeover_there_and_back),
        T(test_three_writers_in_turn),
        T(test_second_writer_dies_too),
        T(test_failed_transactions_during_takeover),
        T(test_run_keeps_its_name),
        cmocka_unit_test(test_ended_run_is_not_changed),
        T(test_exact_figures_replace),
        T(test_smaller_figures_are_ignored),
        T(test_gap_between_writers),
        T(test_gaps_of_a_session_with_events_only),
        T(test_repetitions_end_for_a_session_with_events_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
