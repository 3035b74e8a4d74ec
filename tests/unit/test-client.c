#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "client/admission-decode.h"
#include "client/client.h"
#include "fake-daemon.h"

/* A user without files. */
#define UNPRIVILEGED 65534

struct place {
    char dir[64];
    char path[96];
    const char *paths[3];
    struct arena arena;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    if (!place)
        return -1;
    strcpy(place->dir, "/tmp/sonde-test-client-XXXXXX");
    if (!mkdtemp(place->dir))
        return -1;
    snprintf(place->path, sizeof(place->path), "%s/sonde.sock", place->dir);
    place->paths[0] = place->path;
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", place->dir);
    arena_done(&place->arena);
    free(place);
    return system(command);
}

static struct client *open_client(const struct place *place, int timeout_msec)
{
    const struct client_options options = {.socket_paths = place->paths,
                                           .timeout_msec = timeout_msec};
    struct client_error error = {""};
    struct client *client = NULL;

    assert_int_equal(client_open(&options, &client, &error), 0);
    assert_string_equal(client_socket_path(client), place->path);
    return client;
}

/* ---- requests and answers ---- */

static bool answer_ordinary(void *context _unused_, const struct rpc_request *request,
                            struct text *out)
{
    if (!request)
        return true;
    if (request->method == &method_daemon_status)
        fake_result(out, request, "{\"pid\":7}");
    else if (request->method == &method_job_list)
        fake_result(out, request, rpc_int(request, "limit", 0) == 3 ? "[3]" : "[]");
    else if (request->method == &method_report_job)
        fake_error(out, request, RPC_JOB_NOT_FOUND, "no such job");
    else
        fake_error(out, request, RPC_INTERNAL_ERROR, "what?");
    return true;
}

static void test_requests_and_answers(void **state)
{
    struct place *place = *state;
    struct fake_daemon *daemon = fake_daemon_start(place->path, answer_ordinary, NULL);
    _cleanup_(client_closep) struct client *client = open_client(place, 0);
    struct rpc_reply reply;

    assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply), 0);
    assert_int_equal(reply.error, 0);
    assert_string_equal(reply.result, "{\"pid\":7}");
    assert_int_equal(client_call(client, "job.list", "{\"limit\":3}", &place->arena, &reply), 0);
    assert_string_equal(reply.result, "[3]");
    /* An error is an answer. */
    assert_int_equal(client_call(client, "report.job", NULL, &place->arena, &reply), 0);
    assert_int_equal(reply.error, RPC_JOB_NOT_FOUND);
    assert_string_equal(reply.message, "no such job");
    fake_daemon_stop(daemon);
}

static bool answer_with_events(void *context _unused_, const struct rpc_request *request,
                               struct text *out)
{
    if (!request)
        return true;
    fake_event(out, "{\"event\":\"a\"}");
    /* An answer without a request. */
    rpc_write_result(out, "77", "1", 1);
    text_append_char(out, '\n');
    fake_event(out, "{\"event\":\"b\"}");
    fake_result(out, request, "true");
    fake_event(out, "{\"event\":\"c\"}");
    return true;
}

static void test_events_between_are_kept_in_their_order(void **state)
{
    static const char *const expected[] = {"{\"event\":\"a\"}", "{\"event\":\"b\"}",
                                           "{\"event\":\"c\"}"};
    struct place *place = *state;
    struct fake_daemon *daemon = fake_daemon_start(place->path, answer_with_events, NULL);
    _cleanup_(client_closep) struct client *client = open_client(place, 0);
    struct rpc_reply reply;

    assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply), 0);
    assert_string_equal(reply.result, "true");
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        assert_int_equal(client_next(client, -1, &place->arena, &reply), 0);
        assert_true(reply.is_event);
        assert_string_equal(reply.result, expected[i]);
    }
    assert_int_equal(client_next(client, 0, &place->arena, &reply), -ETIMEDOUT);
    /* The connection still works. */
    assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply), 0);
    fake_daemon_stop(daemon);
    assert_int_equal(client_next(client, 0, &place->arena, &reply), 0);
    assert_int_equal(client_next(client, 0, &place->arena, &reply), 0);
    assert_int_equal(client_next(client, 0, &place->arena, &reply), 0);
    assert_int_equal(client_next(client, 0, &place->arena, &reply), -EPIPE);
}

static bool answer_after_a_flood(void *context _unused_, const struct rpc_request *request,
                                 struct text *out)
{
    char envelope[64];

    if (!request)
        return true;
    for (int i = 0; i < CLIENT_KEPT_MAX_EVENTS + 5; i++) {
        snprintf(envelope, sizeof(envelope), "{\"number\":%d}", i);
        fake_event(out, envelope);
    }
    fake_result(out, request, "true");
    return true;
}

static void test_oldest_events_are_dropped_and_counted(void **state)
{
    struct place *place = *state;
    struct fake_daemon *daemon = fake_daemon_start(place->path, answer_after_a_flood, NULL);
    _cleanup_(client_closep) struct client *client = open_client(place, 0);
    struct rpc_reply reply;

    assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply), 0);
    assert_int_equal(client_take_dropped(client), 5);
    assert_int_equal(client_take_dropped(client), 0);
    assert_int_equal(client_next(client, 0, &place->arena, &reply), 0);
    assert_string_equal(reply.result, "{\"number\":5}");
    for (int i = 6; i < CLIENT_KEPT_MAX_EVENTS + 5; i++)
        assert_int_equal(client_next(client, 0, &place->arena, &reply), 0);
    assert_int_equal(client_next(client, 0, &place->arena, &reply), -ETIMEDOUT);
    fake_daemon_stop(daemon);
}

#define LARGE_BYTES (5 * 1000 * 1000)

static bool answer_at_length(void *context, const struct rpc_request *request, struct text *out)
{
    _cleanup_text_ struct text result = {0};

    if (!request)
        return true;
    text_append_char(&result, '"');
    text_append_repeated(&result, 'x', *(const size_t *)context);
    text_append_char(&result, '"');
    fake_result(out, request, result.bytes);
    return true;
}

static void test_a_large_answer(void **state)
{
    struct place *place = *state;
    size_t size = LARGE_BYTES;
    struct fake_daemon *daemon = fake_daemon_start(place->path, answer_at_length, &size);
    _cleanup_(client_closep) struct client *client = open_client(place, 0);
    struct rpc_reply reply;

    assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply), 0);
    assert_int_equal(reply.result_length, LARGE_BYTES + 2);
    fake_daemon_stop(daemon);
}

static void test_answer_size_is_limited(void **state)
{
    struct place *place = *state;
    size_t size = CLIENT_ANSWER_MAX_BYTES;
    struct fake_daemon *daemon = fake_daemon_start(place->path, answer_at_length, &size);
    _cleanup_(client_closep) struct client *client = open_client(place, 60000);
    struct rpc_reply reply;

    assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply), -EMSGSIZE);
    assert_non_null(strstr(client_strerror(client), "larger than 64 MiB"));
    fake_daemon_stop(daemon);
}

/* ---- failures ---- */

static bool never_answer(void *context _unused_, const struct rpc_request *request _unused_,
                         struct text *out _unused_)
{
    return true;
}

static void test_daemon_does_not_answer(void **state)
{
    struct place *place = *state;
    struct fake_daemon *daemon = fake_daemon_start(place->path, never_answer, NULL);
    _cleanup_(client_closep) struct client *client = open_client(place, 20);
    struct rpc_reply reply;

    assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply), -ETIMEDOUT);
    assert_non_null(strstr(client_strerror(client), "does not answer within 0.02 s"));
    assert_non_null(strstr(client_strerror(client), place->path));
    fake_daemon_stop(daemon);
}

static bool hang_up(void *context _unused_, const struct rpc_request *request,
                    struct text *out _unused_)
{
    return !request;
}

static void test_daemon_disconnects(void **state)
{
    struct place *place = *state;
    struct fake_daemon *daemon = fake_daemon_start(place->path, hang_up, NULL);
    _cleanup_(client_closep) struct client *client = open_client(place, 0);
    struct rpc_reply reply;

    assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply), -EPIPE);
    assert_non_null(strstr(client_strerror(client), "closed the connection"));
    /* The next attempt does not raise SIGPIPE either. */
    assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply), -EPIPE);
    fake_daemon_stop(daemon);
}

static bool refuse_connection(void *context _unused_, const struct rpc_request *request _unused_,
                              struct text *out)
{
    fake_error(out, NULL, RPC_RESOURCES_EXHAUSTED, "too many connections");
    return false;
}

static void test_rejected_connection(void **state)
{
    struct place *place = *state;
    struct fake_daemon *daemon = fake_daemon_start(place->path, refuse_connection, NULL);
    _cleanup_(client_closep) struct client *client = open_client(place, 0);
    struct pollfd fd = {.fd = client_fd(client), .events = POLLRDHUP};
    struct rpc_reply reply;

    /* The daemon has closed the connection before the request is sent; its error is read anyway. */
    assert_int_equal(poll(&fd, 1, -1), 1);
    assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply), 0);
    assert_int_equal(reply.error, RPC_RESOURCES_EXHAUSTED);
    assert_string_equal(reply.message, "too many connections");
    fake_daemon_stop(daemon);
}

static bool answer_garbage(void *context, const struct rpc_request *request, struct text *out)
{
    if (request)
        text_append_string(out, context);
    return true;
}

static void test_garbage(void **state)
{
    static const char *const garbage[] = {"HTTP/1.1 400 Bad Request\r\n", "{}\n", "[1]\n", "\xff\n",
                                          "{\"jsonrpc\":\"2.0\",\"id\":1}\n"};
    struct place *place = *state;

    for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
        struct fake_daemon *daemon =
            fake_daemon_start(place->path, answer_garbage, (void *)(uintptr_t)garbage[i]);
        _cleanup_(client_closep) struct client *client = open_client(place, 0);
        struct rpc_reply reply;
        assert_int_equal(client_call(client, "daemon.status", NULL, &place->arena, &reply),
                         -EBADMSG);
        assert_non_null(
            strstr(client_strerror(client), "does not speak the protocol of a sonde daemon"));
        fake_daemon_stop(daemon);
    }
}

/* ---- finding a daemon ---- */

static int try_open(const struct place *place, struct client_error *error)
{
    const struct client_options options = {.socket_paths = place->paths};
    _cleanup_(client_closep) struct client *client = NULL;

    return client_open(&options, &client, error);
}

static void test_no_daemon(void **state)
{
    struct place *place = *state;
    struct client_error error = {""};
    char expected[256];

    place->paths[1] = "/nowhere/sonde.sock";
    assert_int_equal(try_open(place, &error), -ENOENT);
    snprintf(expected, sizeof(expected),
             "no daemon is running (looked at '%s' and '/nowhere/sonde.sock'); start one with: "
             "sonde daemon",
             place->path);
    assert_string_equal(error.text, expected);

    /* The socket file of a daemon that died. */
    fake_daemon_stop(fake_daemon_start(place->path, never_answer, NULL));
    assert_int_equal(access(place->path, F_OK), 0);
    assert_int_equal(try_open(place, &error), -ENOENT);
}

static void test_second_path_is_tried(void **state)
{
    struct place *place = *state;
    struct fake_daemon *daemon = fake_daemon_start(place->path, answer_ordinary, NULL);

    place->paths[0] = "/nowhere/sonde.sock";
    place->paths[1] = place->path;
    client_close(open_client(place, 0));
    fake_daemon_stop(daemon);
}

static void test_a_path_that_is_too_long(void **state)
{
    struct place *place = *state;
    struct client_error error = {""};
    char path[200];

    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[108] = '\0';
    place->paths[0] = path;
    assert_int_equal(try_open(place, &error), -ENAMETOOLONG);
    assert_non_null(strstr(error.text, "longer than 107 bytes"));
    assert_non_null(strstr(error.text, "--socket"));
}

/* Runs `body` as another user in a child process; returns its result as an exit status. */
static int as_unprivileged(int (*body)(const struct place *place), const struct place *place)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) < 0 ? 255 : body(place));
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int open_and_return_status(const struct place *place)
{
    struct client_error error = {""};
    int r = try_open(place, &error);

    if (r == -EACCES && !(strstr(error.text, "daemon.access") && strstr(error.text, place->path)))
        return 254;
    return -r;
}

static void test_daemon_denies_access(void **state)
{
    struct place *place = *state;

    if (geteuid() != 0)
        skip();
    struct fake_daemon *daemon = fake_daemon_start(place->path, answer_ordinary, NULL);
    assert_int_equal(chmod(place->dir, 0755), 0);
    assert_int_equal(chmod(place->path, 0600), 0);
    assert_int_equal(as_unprivileged(open_and_return_status, place), EACCES);
    assert_int_equal(chmod(place->path, 0666), 0);
    assert_int_equal(as_unprivileged(open_and_return_status, place), 0);
    fake_daemon_stop(daemon);
}

/* The listening socket outlives the process that made it: the peer has that process's credentials.
 */
static int make_unprivileged_socket(const struct place *place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int pair[2], status;
    char byte;

    strcpy(address.sun_path, place->path);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) < 0 ||
              bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
              listen(fd, 5) < 0 || write(pair[1], "x", 1) != 1);
    assert_int_equal(read(pair[0], &byte, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(pair[0]);
    close(pair[1]);
    return fd;
}

static void test_socket_of_another_user_is_not_trusted(void **state)
{
    struct place *place = *state;
    struct client_error error = {""};

    if (geteuid() != 0)
        skip();
    /* Any user may create a socket here, as in /tmp. */
    assert_int_equal(chmod(place->dir, 01777), 0);
    int fd = make_unprivileged_socket(place);
    assert_int_equal(try_open(place, &error), -EPERM);
    assert_non_null(strstr(error.text, "has uid 65534"));
    /* The user's own directory proves nothing where any user may create one. */
    assert_int_equal(chown(place->dir, UNPRIVILEGED, UNPRIVILEGED), 0);
    assert_int_equal(try_open(place, &error), -EPERM);
    assert_null(strstr(error.text, "nor the owner of its directory"));
    assert_non_null(strstr(error.text, "and its directory belong to uid 65534"));
    close(fd);
    assert_int_equal(unlink(place->path), 0);
    /* Where only root can have created the directory, it is that user's daemon. */
    struct place inner = *place;
    strcat(inner.dir, "/own");
    snprintf(inner.path, sizeof(inner.path), "%s/s", inner.dir);
    inner.paths[0] = inner.path;
    assert_int_equal(chown(place->dir, 0, 0) | chmod(place->dir, 0755), 0);
    assert_int_equal(mkdir(inner.dir, 0755) | chown(inner.dir, UNPRIVILEGED, UNPRIVILEGED), 0);
    fd = make_unprivileged_socket(&inner);
    assert_int_equal(try_open(&inner, &error), 0);
    close(fd);
    unlink(inner.path);
    rmdir(inner.dir);
}

/* ---- admission ---- */

static int decode(const char *json, struct admission *ret)
{
    return admission_decode(json, strlen(json), ret);
}

static void test_admission(void **state _unused_)
{
    struct admission admission = {.delay_seconds = 99};

    assert_int_equal(decode("{\"allowed\":false,\"delay_seconds\":30,\"level\":\"high\","
                            "\"reason\":\"full\",\"more\":1}",
                            &admission),
                     0);
    assert_false(admission.allowed);
    assert_true(admission.delay_seconds == 30);
    assert_int_equal(admission.level, PRESSURE_HIGH);
    assert_string_equal(admission.reason, "full");
    assert_int_equal(decode("{\"allowed\":true,\"reason\":null,\"level\":\"odd\"}", &admission), 0);
    assert_true(admission.allowed);
    assert_true(admission.delay_seconds == 0);
    assert_int_equal(admission.level, PRESSURE_UNKNOWN);
    assert_string_equal(admission.reason, "");

    static const char *const wrong[] = {
        "", "null", "[]", "{}", "{\"allowed\":1}", "{\"allowed\":true,\"delay_seconds\":\"x\"}"};
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        assert_int_equal(decode(wrong[i], &admission), -EBADMSG);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_requests_and_answers),
        TEST(test_events_between_are_kept_in_their_order),
        TEST(test_oldest_events_are_dropped_and_counted),
        TEST(test_a_large_answer),
        TEST(test_answer_size_is_limited),
        TEST(test_daemon_does_not_answer),
        TEST(test_daemon_disconnects),
        TEST(test_rejected_connection),
        TEST(test_garbage),
        TEST(test_no_daemon),
        TEST(test_second_path_is_tried),
        TEST(test_a_path_that_is_too_long),
        TEST(test_daemon_denies_access),
        TEST(test_socket_of_another_user_is_not_trusted),
        cmocka_unit_test(test_admission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
