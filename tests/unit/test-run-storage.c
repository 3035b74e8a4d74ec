/* Which part of a run is stored here, and which by the daemon: with a fake daemon and a real
 * database. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "run/run-storage.h"
#include "store-world.h"

#define COMMAND_PID 100
/* As many as wait for the answer of a daemon (WAITING_MAX). */
#define TICKS_HELD_MAX 128

/* ---- a fake daemon ---- */

static struct {
    enum backend_state state; /* that it answers with */
    bool has_events;
    const char *job_id;
    const char *cause;
    int finish_error;
    int offers, leaves, finishes, signals;
    bool was_kept; /* in the last offer */
    int outcome;   /* in the last finish */
    int fd;
} fake;

static enum backend_state offer(void *context _unused_, const struct job *job _unused_,
                                pid_t pid _unused_, int64_t sheet_num _unused_, bool was_kept,
                                bool keeps_events _unused_)
{
    fake.offers++;
    fake.was_kept = was_kept;
    return fake.state;
}

static int get_fd(void *context _unused_)
{
    return fake.fd;
}

static enum backend_state get_state(void *context _unused_)
{
    return fake.state;
}

static const char *get_job_id(void *context _unused_)
{
    return fake.job_id;
}

static bool has_events(void *context _unused_)
{
    return fake.has_events;
}

static const char *get_cause(void *context _unused_, struct process_event_list *ret_chain _unused_)
{
    return fake.cause;
}

static void signalled(void *context _unused_, pid_t pid _unused_,
                      const struct process_event *sent _unused_)
{
    fake.signals++;
}

static int finish(void *context _unused_, const struct job *job)
{
    fake.finishes++;
    fake.outcome = job->outcome;
    return fake.finish_error;
}

static void leave(void *context _unused_)
{
    fake.leaves++;
}

static const struct run_backend backend = {
    .offer = offer,
    .get_fd = get_fd,
    .check = get_state,
    .await_answer = get_state,
    .get_job_id = get_job_id,
    .has_events = has_events,
    .get_cause = get_cause,
    .signalled = signalled,
    .finish = finish,
    .leave = leave,
};

/* ---- a run ---- */

static uv_loop_t loop;
static char run_id[UUID_TEXT_SIZE];
static char notice[256];
static char program[] = "true";
static char *const argv[] = {program, NULL};
static const struct config config; /* nothing is redacted */
static struct job_run_options options;
static struct run_storage *storage;
static struct run_storage_end end;
static struct arena arena;

static void on_notice(void *context _unused_, const char *text)
{
    snprintf(notice, sizeof(notice), "%s", text);
}

static int set_up(void **state)
{
    int r = store_fixture_set_up(state);
    if (r)
        return r;
    const struct store_fixture *fixture = *state;
    memset(&fake, 0, sizeof(fake));
    fake.job_id = "job";
    fake.has_events = true;
    fake.fd = eventfd(0, EFD_CLOEXEC);
    notice[0] = '\0';
    assert_int_equal(uuid_make(clock_real_ns(), run_id), 0);
    options = (struct job_run_options){
        .argv = argv,
        .config = &config,
        .run_id = run_id,
        .job_id = "job",
        .sheet_num = INT_UNKNOWN,
        .interval_ns = NS_PER_SEC,
        .store = &fixture->options,
        .on_notice = on_notice,
        .backend = &backend,
    };
    return uv_loop_init(&loop);
}

static int tear_down(void **state)
{
    arena_done(&arena);
    arena = (struct arena){0};
    close(fake.fd);
    uv_run(&loop, UV_RUN_DEFAULT); /* the close callbacks */
    return uv_loop_close(&loop) || store_fixture_tear_down(state);
}

static void begin(enum backend_state state)
{
    const struct moment now = moment_now();

    fake.state = state;
    storage = run_storage_begin(&loop, &options, &now, COMMAND_PID);
    assert_non_null(storage);
}

/* A snapshot, and the spawn of one process. */
static struct tick_box *make_tick(void)
{
    static pid_t pid = COMMAND_PID;
    const struct event_owner owner = {
        .run_id = run_id, .job_id = "job", .uid = getuid(), .sheet_num = INT_UNKNOWN};
    struct tick_box *box = tick_box_new();

    assert_non_null(box);
    struct snapshot *snapshot = snapshot_new();
    assert_non_null(snapshot);
    fixture_stamp(snapshot);
    box->tick.snapshot = snapshot;
    assert_non_null(tick_box_add_spawn(box, owner, pid++, 1, fixture_now));
    return box;
}

static void tick(size_t count)
{
    for (size_t i = 0; i < count; i++)
        run_storage_tick(storage, make_tick());
}

static void end_run(void)
{
    struct run_summary summary;

    record_init(&run_summary_record, &summary);
    summary.run_id = run_id;
    summary.profile.job_id = "job";
    summary.sheet_num = INT_UNKNOWN;
    summary.started_at = ns_to_sec(clock_real_ns());
    summary.outcome = OUTCOME_FAILURE;
    summary.exit_code = 3;
    run_storage_finish(TAKE_PTR(storage), make_tick(), &summary, ns_to_sec(clock_real_ns()), &arena,
                       &end);
}

static bool has_database(void **state)
{
    return access(((const struct store_fixture *)*state)->path, F_OK) == 0;
}

static int64_t count(void **state, const char *sql)
{
    sqlite3 *handle = fixture_sqlite(*state);
    int64_t value = ask_int(handle, sql);

    sqlite3_close(handle);
    return value;
}

static void assert_stored(void **state, int64_t snapshots, int64_t events)
{
    assert_int_equal(count(state, "SELECT count(*) FROM snapshots"), snapshots);
    assert_int_equal(count(state, "SELECT count(*) FROM process_events"), events);
}

static void assert_failed_run(void **state)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(*state);
    struct job job;

    assert_int_equal(store_find_job(reader, "job", &arena, &job), 0);
    assert_string_equal(job.run_id, run_id);
    assert_int_equal(job.outcome, OUTCOME_FAILURE);
    assert_int_equal(job.exit_code, 3);
}

/* ---- tests ---- */

static void test_without_a_daemon_the_run_stores_everything(void **state)
{
    begin(BACKEND_ABSENT);
    assert_true(run_storage_is_local(storage));
    assert_true(run_storage_keeps_events(storage));
    tick(2);
    end_run();
    assert_stored(state, 3, 3);
    assert_failed_run(state);
    assert_int_equal(fake.finishes, 0);
    assert_null(end.cause);
    assert_string_equal(notice, "");
}

static void test_without_a_loop_no_daemon_is_asked(void **state)
{
    const struct moment now = moment_now();

    fake.state = BACKEND_ACTIVE;
    storage = run_storage_begin(NULL, &options, &now, COMMAND_PID);
    end_run();
    assert_int_equal(fake.offers, 0);
    assert_failed_run(state);
}

static void test_a_daemon_stores_everything(void **state)
{
    fake.cause = "killed by SIGKILL";
    begin(BACKEND_ACTIVE);
    assert_true(run_storage_has_daemon(storage));
    assert_false(run_storage_keeps_events(storage));
    assert_false(run_storage_is_local(storage));
    tick(20);
    end_run();
    assert_false(has_database(state));
    assert_int_equal(fake.finishes, 1);
    assert_int_equal(fake.outcome, OUTCOME_FAILURE);
    assert_int_equal(fake.leaves, 1);
    assert_string_equal(end.cause, "killed by SIGKILL");
    assert_string_equal(end.job_id, "job");
}

static void test_a_daemon_stores_samples_only(void **state)
{
    fake.has_events = false;
    begin(BACKEND_ACTIVE);
    assert_true(run_storage_keeps_events(storage));
    tick(2);
    end_run();
    assert_int_equal(fake.finishes, 1);
    assert_stored(state, 0, 3);
}

static void test_a_name_by_the_daemon_is_reported(void **state)
{
    fake.job_id = "job-2";
    begin(BACKEND_ACTIVE);
    assert_has(notice, "this one is called 'job-2'");
    end_run();
    assert_string_equal(end.job_id, "job-2");
    assert_false(has_database(state));
}

static void test_ticks_wait_for_a_late_answer(void **state)
{
    begin(BACKEND_ASKED);
    tick(5);
    assert_false(run_storage_is_local(storage));
    fake.state = BACKEND_ACTIVE;
    tick(1);
    assert_true(run_storage_has_daemon(storage));
    end_run();
    assert_false(has_database(state));
}

static void test_ticks_wait_for_a_late_refusal(void **state)
{
    begin(BACKEND_ASKED);
    tick(5);
    fake.state = BACKEND_ABSENT;
    tick(1);
    assert_true(run_storage_is_local(storage));
    assert_int_equal(fake.leaves, 1);
    end_run();
    assert_stored(state, 7, 7);
    assert_failed_run(state);
}

static void test_a_silent_daemon_is_given_up(void **state)
{
    begin(BACKEND_ASKED);
    tick(TICKS_HELD_MAX);
    assert_false(run_storage_is_local(storage));
    assert_false(has_database(state));
    tick(1);
    assert_true(run_storage_is_local(storage));
    assert_int_equal(fake.leaves, 1);
    end_run();
    assert_int_equal(fake.finishes, 0);
    assert_failed_run(state);
}

static void test_no_answer_until_the_end_of_the_run(void **state)
{
    begin(BACKEND_ASKED);
    tick(2);
    fake.state = BACKEND_ABSENT; /* as await_answer() returns it */
    end_run();
    assert_stored(state, 3, 3);
    assert_failed_run(state);
}

static void test_an_answer_at_the_end_of_the_run(void **state)
{
    begin(BACKEND_ASKED);
    tick(2);
    fake.state = BACKEND_ACTIVE;
    end_run();
    assert_int_equal(fake.finishes, 1);
    assert_false(has_database(state));
}

/* The daemon may not have written its last ticks. */
static void test_a_daemon_goes_away(void **state)
{
    begin(BACKEND_ACTIVE);
    tick(20);
    fake.state = BACKEND_ABSENT;
    tick(1);
    assert_true(run_storage_is_local(storage));
    assert_true(run_storage_keeps_events(storage));
    end_run();
    assert_int_equal(fake.finishes, 0);
    assert_stored(state, 16 + 2, 16 + 2);
    assert_failed_run(state);
}

static void test_a_daemon_that_does_not_store_the_end(void **state)
{
    fake.finish_error = -EPIPE;
    fake.cause = "not used";
    begin(BACKEND_ACTIVE);
    tick(1);
    end_run();
    assert_int_equal(fake.finishes, 1);
    assert_null(end.cause);
    assert_stored(state, 2, 2);
    assert_failed_run(state);
}

static void test_signals_are_reported_to_the_daemon(void **state _unused_)
{
    struct process_event sent;

    record_init(&process_event_record, &sent);
    sent.signal_num = SIGTERM;
    begin(BACKEND_ASKED);
    run_storage_signalled(storage, COMMAND_PID, &sent);
    assert_int_equal(fake.signals, 1);
    fake.state = BACKEND_ABSENT;
    tick(1);
    run_storage_signalled(storage, COMMAND_PID, &sent);
    assert_int_equal(fake.signals, 1);
    end_run();
}

static void test_nothing_is_stored_without_a_store(void **state)
{
    options.store = NULL;
    begin(BACKEND_ACTIVE);
    tick(2);
    end_run();
    assert_int_equal(fake.offers, 0);
    assert_false(has_database(state));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_without_a_daemon_the_run_stores_everything),
        TEST(test_without_a_loop_no_daemon_is_asked),
        TEST(test_a_daemon_stores_everything),
        TEST(test_a_daemon_stores_samples_only),
        TEST(test_a_name_by_the_daemon_is_reported),
        TEST(test_ticks_wait_for_a_late_answer),
        TEST(test_ticks_wait_for_a_late_refusal),
        TEST(test_a_silent_daemon_is_given_up),
        TEST(test_no_answer_until_the_end_of_the_run),
        TEST(test_an_answer_at_the_end_of_the_run),
        TEST(test_a_daemon_goes_away),
        TEST(test_a_daemon_that_does_not_store_the_end),
        TEST(test_signals_are_reported_to_the_daemon),
        TEST(test_nothing_is_stored_without_a_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
