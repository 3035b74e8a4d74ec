/* A daemon as the backend of a run: each way in which it can answer, or not. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client/run-link.h"
#include "fake-daemon.h"

#define RUN_ID "01890a5d-ac96-774b-bcce-b302099a8057"
#define NAMES  "{\"run_id\":\"" RUN_ID "\",\"job_id\":\"build-2\"}"

enum reaction { ANSWERS, KEEPS_SILENT, FAILS, HANGS_UP, KNOWS_0_1_0 };

/* The daemon's threads write what was received, the test reads it after they have ended. */
struct place {
    char path[64];
    const char *paths[2];
    struct fake_daemon *daemon;
    struct run_link *link;
    const struct run_backend *backend;
    enum reaction to_start, to_finish;
    const char *start_result, *finish_result;
    unsigned starts, finishes, signals, leaves; /* received */
    int user_exactness[2];                      /* of the first two job.finish */
};

static bool answer(void *context, const struct rpc_request *request, struct text *out)
{
    struct place *place = context;
    const struct job_profile *profile;

    if (!request || !request->method)
        return true;
    place->starts += request->method == &method_job_start;
    place->finishes += request->method == &method_job_finish;
    place->signals += request->method == &method_job_signal;
    place->leaves += request->method == &method_job_leave;
    if (request->method != &method_job_start && request->method != &method_job_finish) {
        fake_error(out, request, RPC_JOB_NOT_FOUND, "an ignored error");
        return true;
    }
    bool is_start = request->method == &method_job_start;
    switch (is_start ? place->to_start : place->to_finish) {
    case ANSWERS:
        fake_result(out, request, is_start ? place->start_result : place->finish_result);
        break;
    case KEEPS_SILENT: break;
    case FAILS: fake_error(out, request, RPC_RESOURCES_EXHAUSTED, "too many runs"); break;
    case HANGS_UP: return false;
    case KNOWS_0_1_0:
        profile = request->record;
        place->user_exactness[(place->finishes - 1) % 2] = profile->exactness.user_seconds;
        if (place->finishes == 1)
            fake_error(out, request, RPC_INVALID_PARAMS, "there is no parameter 'exactness'");
        else
            fake_result(out, request, place->finish_result);
        break;
    }
    return true;
}

static int set_up(void **state)
{
    static struct place place;

    if (make_directory(state) < 0)
        return -1;
    place = (struct place){.start_result = NAMES, .finish_result = NAMES};
    snprintf(place.path, sizeof(place.path), "%s/sonde.sock", (char *)*state);
    place.paths[0] = place.path;
    free(*state);
    place.link = run_link_new(place.paths, "/tmp/own.db");
    if (!place.link)
        return -1;
    place.backend = run_link_backend(place.link);
    *state = &place;
    return 0;
}

static void stop_daemon(struct place *place)
{
    if (place->daemon)
        fake_daemon_stop(TAKE_PTR(place->daemon));
}

static int tear_down(void **state)
{
    struct place *place = *state;
    char *slash = strrchr(place->path, '/');

    run_link_free(place->link);
    stop_daemon(place);
    *slash = '\0';
    *state = strdup(place->path);
    return remove_directory(state);
}

static enum backend_state start(struct place *place)
{
    struct job job;

    record_init(&job_record, &job);
    job.run_id = RUN_ID;
    job.job_id = "build";
    job.command = "make all";
    return place->backend->offer(place->link, &job, getpid(), INT_UNKNOWN, false, false);
}

static void start_kept(struct place *place)
{
    place->daemon = fake_daemon_start(place->path, answer, place);
    assert_int_equal(start(place), BACKEND_ASKED);
    assert_int_equal(place->backend->await_answer(place->link), BACKEND_ACTIVE);
}

static int finish(struct place *place)
{
    struct job job;

    record_init(&job_record, &job);
    job.run_id = RUN_ID;
    job.outcome = OUTCOME_FAILURE;
    job.exit_code = 3;
    job.cause = "exit status 3";
    job.profile.exactness.cpu_seconds = EXACT;
    job.profile.exactness.user_seconds = LOWER_BOUND;
    return place->backend->finish(place->link, &job);
}

/* ---- job.start ---- */

static void test_start_is_answered(void **state)
{
    struct place *place = *state;

    place->start_result = "{\"run_id\":\"" RUN_ID "\",\"job_id\":\"build-2\",\"has_events\":false}";
    start_kept(place);
    assert_true(place->backend->get_fd(place->link) >= 0);
    assert_string_equal(place->backend->get_job_id(place->link), "build-2");
    assert_false(place->backend->has_events(place->link));
    stop_daemon(place);
    assert_int_equal(place->starts, 1);
    assert_int_equal(place->leaves, 0);
}

/* An older daemon does not send has_events. */
static void test_start_without_has_events(void **state)
{
    struct place *place = *state;

    start_kept(place);
    assert_true(place->backend->has_events(place->link));
}

static void test_start_is_never_answered(void **state)
{
    struct place *place = *state;

    place->to_start = KEEPS_SILENT;
    place->daemon = fake_daemon_start(place->path, answer, place);
    assert_int_equal(start(place), BACKEND_ASKED);
    assert_int_equal(place->backend->check(place->link), BACKEND_ASKED);
    assert_int_equal(place->backend->await_answer(place->link), BACKEND_ABSENT);
    assert_int_equal(place->backend->get_fd(place->link), -1);
}

static void test_start_is_answered_with_an_error(void **state)
{
    struct place *place = *state;

    place->to_start = FAILS;
    place->daemon = fake_daemon_start(place->path, answer, place);
    assert_int_equal(start(place), BACKEND_ASKED);
    assert_int_equal(place->backend->await_answer(place->link), BACKEND_ABSENT);
    assert_int_equal(place->backend->get_fd(place->link), -1);
    assert_int_equal(finish(place), -ENOTCONN);
}

static void test_daemon_hangs_up_at_start(void **state)
{
    struct place *place = *state;

    place->to_start = HANGS_UP;
    place->daemon = fake_daemon_start(place->path, answer, place);
    start(place);
    assert_int_equal(place->backend->await_answer(place->link), BACKEND_ABSENT);
}

static void test_no_daemon(void **state)
{
    struct place *place = *state;

    assert_int_equal(start(place), BACKEND_ABSENT);
    assert_int_equal(place->backend->check(place->link), BACKEND_ABSENT);
    assert_int_equal(place->backend->get_fd(place->link), -1);
    assert_int_equal(finish(place), -ENOTCONN);
    place->backend->leave(place->link);
}

/* ---- a daemon that goes away ---- */

static void test_daemon_goes_away_and_comes_back(void **state)
{
    struct place *place = *state;

    start_kept(place);
    stop_daemon(place);
    assert_int_equal(place->backend->check(place->link), BACKEND_ABSENT);
    assert_int_equal(start(place), BACKEND_ABSENT); /* its socket file is still there */
    start_kept(place);
    assert_int_equal(finish(place), 0);
}

/* A listener that accepts no connection and whose backlog is full. */
static void test_full_backlog(void **state)
{
    struct place *place = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fds[8], listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t count = 0;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", place->path);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 0), 0);
    for (bool is_full = false; !is_full; count++) {
        assert_true(count < ARRAY_SIZE(fds));
        fds[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        is_full = connect(fds[count], (const struct sockaddr *)&address, sizeof(address)) < 0;
        assert_true(!is_full || errno == EAGAIN);
    }
    assert_int_equal(start(place), BACKEND_ABSENT);
    assert_int_equal(place->backend->get_fd(place->link), -1);
    while (count)
        close(fds[--count]);
    close(listener);
}

/* ---- job.finish ---- */

static void test_finish_is_acknowledged(void **state)
{
    struct place *place = *state;
    struct process_event_list chain;

    place->finish_result = "{\"run_id\":\"" RUN_ID "\",\"job_id\":\"build-2\","
                           "\"cause\":\"cc1 was killed by SIGKILL\"}";
    start_kept(place);
    assert_int_equal(finish(place), 0);
    assert_string_equal(place->backend->get_cause(place->link, &chain),
                        "cc1 was killed by SIGKILL");
    assert_int_equal(chain.count, 0);
    place->backend->leave(place->link);
    stop_daemon(place);
    assert_int_equal(place->finishes, 1);
    assert_int_equal(place->leaves, 0);
}

static void test_finish_is_never_acknowledged(void **state)
{
    struct place *place = *state;

    place->to_finish = KEEPS_SILENT;
    start_kept(place);
    assert_int_equal(finish(place), -ETIMEDOUT);
}

static void test_finish_is_answered_with_an_error(void **state)
{
    struct place *place = *state;

    place->to_finish = FAILS;
    start_kept(place);
    assert_int_equal(finish(place), -EPIPE);
}

/* A daemon of version 0.1.0 refuses newer parameters and gets the end again as it knows it: with
 * one exactness for all CPU times. */
static void test_finish_at_a_daemon_of_the_first_version(void **state)
{
    struct place *place = *state;

    place->to_finish = KNOWS_0_1_0;
    start_kept(place);
    assert_int_equal(finish(place), 0);
    stop_daemon(place);
    assert_int_equal(place->finishes, 2);
    assert_int_equal(place->user_exactness[0], LOWER_BOUND);
    assert_int_equal(place->user_exactness[1], EXACT);
}

static void test_daemon_hangs_up_at_finish(void **state)
{
    struct place *place = *state;

    place->to_finish = HANGS_UP;
    start_kept(place);
    assert_int_equal(finish(place), -EPIPE);
}

/* ---- other requests ---- */

/* The error that answers job.signal does not end the connection. */
static void test_signal_is_reported(void **state)
{
    struct place *place = *state;
    struct process_event sent = {.details_are_calls = false}; /* not a field of the record */

    record_init(&process_event_record, &sent);
    sent.signal_num = 9;
    start_kept(place);
    place->backend->signalled(place->link, getpid(), &sent);
    assert_int_equal(finish(place), 0);
    stop_daemon(place);
    assert_int_equal(place->signals, 1);
}

/* A daemon that has not answered learns that the run is stored by its caller; one that keeps the
 * run does not. */
static void test_caller_stores_the_run(void **state)
{
    struct place *place = *state;

    place->to_start = KEEPS_SILENT;
    place->daemon = fake_daemon_start(place->path, answer, place);
    assert_int_equal(start(place), BACKEND_ASKED);
    int fd = dup(place->backend->get_fd(place->link));
    place->backend->leave(place->link);
    assert_int_equal(place->backend->get_fd(place->link), -1);
    assert_int_equal(place->backend->check(place->link), BACKEND_ABSENT);
    /* The answer to job.leave shows that it was received. */
    struct pollfd answered = {.fd = fd, .events = POLLIN};
    char byte;
    assert_int_equal(poll(&answered, 1, 20000), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    close(fd);
    stop_daemon(place);
    assert_int_equal(place->leaves, 1);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_start_is_answered),
        T(test_start_without_has_events),
        T(test_start_is_never_answered),
        T(test_start_is_answered_with_an_error),
        T(test_daemon_hangs_up_at_start),
        T(test_no_daemon),
        T(test_daemon_goes_away_and_comes_back),
        T(test_full_backlog),
        T(test_finish_is_acknowledged),
        T(test_finish_is_never_acknowledged),
        T(test_finish_at_a_daemon_of_the_first_version),
        T(test_finish_is_answered_with_an_error),
        T(test_daemon_hangs_up_at_finish),
        T(test_signal_is_reported),
        T(test_caller_stores_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
