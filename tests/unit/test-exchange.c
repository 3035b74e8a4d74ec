/* One line of a client and its answers, with a real daemon, connection and query thread. */
#include "unit.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon-world.h"
#include "daemon/exchange.h"
#include "daemon/query-thread.h"

#define PATIENCE (20 * NS_PER_SEC)

#define EVENTS(id)   "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"daemon.events\"}"
#define TOP(id)      "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"daemon.top\"}"
#define QUERY(id)    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"estimate.calibration\"}"
#define UNKNOWN(id)  "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"daemon.nothing\"}"
#define NOTIFICATION "{\"jsonrpc\":\"2.0\",\"method\":\"daemon.events\"}"

static struct connection *connection;
static int client_fd;
static struct text output;
static unsigned done_count;

static int set_up(void **state)
{
    const struct peer peer = {.pid = getpid(), .uid = 1000};
    int fds[2];

    int r = daemon_world_set_up(state);
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    client_fd = fds[1];
    assert_int_equal(connection_open(daemon->server, daemon, fds[0], &peer, &connection), 0);
    done_count = 0;
    return r;
}

static int tear_down(void **state)
{
    text_done(&output);
    output = (struct text){0};
    connection_close(connection);
    close(client_fd);
    return daemon_world_tear_down(state);
}

static void on_done(struct connection *of, struct text *out)
{
    assert_ptr_equal(of, connection);
    text_append(&output, out->bytes, out->length);
    done_count++;
}

static struct exchange *start(void **state, const char *line)
{
    struct daemon_world *world = *state;
    int error;

    struct exchange *exchange =
        exchange_start(&world->daemon, connection, line, strlen(line), on_done, &error);
    assert_int_equal(error, 0);
    return exchange;
}

static void await_done(void **state)
{
    struct daemon_world *world = *state;
    uint64_t until = clock_mono_ns() + PATIENCE;

    while (!done_count && clock_mono_ns() < until)
        uv_run(&world->daemon.loop, UV_RUN_ONCE);
    assert_int_equal(done_count, 1);
}

static const char *find(const char *part)
{
    const char *found = strstr(text_string(&output), part);

    if (!found)
        fail_msg("\"%s\" has no \"%s\"", text_string(&output), part);
    return found;
}

static void assert_is_line(void)
{
    assert_true(output.length > 0);
    assert_ptr_equal(strchr(text_string(&output), '\n'), output.bytes + output.length - 1);
}

static void test_answers_of_a_batch_are_in_order(void **state)
{
    assert_null(start(state, "[" EVENTS("1") "," UNKNOWN("2") "," EVENTS("3") "]"));
    assert_int_equal(done_count, 1);
    assert_is_line();
    assert_int_equal(output.bytes[0], '[');
    assert_int_equal(output.bytes[output.length - 2], ']');
    assert_true(find("\"id\":1") < find("\"id\":2"));
    assert_true(find("\"id\":2") < find("\"id\":3"));
    assert_true(find("-32601") < find("\"id\":3"));
}

static void test_single_request_is_no_list(void **state)
{
    assert_null(start(state, EVENTS("7")));
    assert_is_line();
    assert_int_equal(output.bytes[0], '{');
    find("\"id\":7");
    find("\"result\":[]");
}

static void test_line_that_is_not_json(void **state)
{
    assert_null(start(state, "[" EVENTS("1") ", {"));
    assert_int_equal(done_count, 1);
    assert_is_line();
    find("-32700");
    find("\"id\":null");
    assert_null(strstr(text_string(&output), "\"result\""));
}

/* The other requests of the batch are answered. */
static void test_batch_with_an_invalid_request(void **state)
{
    assert_null(start(state, "[5," EVENTS("1") "]"));
    assert_true(find("-32600") < find("\"id\":1"));
    find("\"id\":null");
    find("\"result\":[]");
}

static void test_notification_gets_no_answer(void **state)
{
    assert_null(start(state, NOTIFICATION));
    assert_int_equal(done_count, 1);
    assert_int_equal(output.length, 0);
    assert_null(start(state, "[" NOTIFICATION "," NOTIFICATION "]"));
    assert_int_equal(done_count, 2);
    assert_int_equal(output.length, 0);
    assert_null(start(state, "[" NOTIFICATION "," EVENTS("4") "]"));
    assert_is_line();
    assert_int_equal(output.bytes[0], '[');
    assert_memory_equal(output.bytes, "[{", 2);
    find("\"id\":4");
}

static void test_query_delays_the_later_requests(void **state)
{
    assert_non_null(start(state, "[" EVENTS("1") "," QUERY("2") "," UNKNOWN("3") "]"));
    assert_int_equal(done_count, 0);
    await_done(state);
    assert_is_line();
    assert_true(find("\"id\":1") < find("\"id\":2"));
    assert_true(find("\"id\":2") < find("\"id\":3"));
    find("\"id\":3");
    assert_null(strstr(text_string(&output), "-32603")); /* the query did not fail */
}

/* The queries of one line never run at the same time, so that they need one place only. */
static void test_several_queries_in_a_line(void **state)
{
    assert_non_null(start(state, "[" QUERY("1") "," QUERY("2") "," QUERY("3") "]"));
    await_done(state);
    assert_true(find("\"id\":1") < find("\"id\":2"));
    assert_true(find("\"id\":2") < find("\"id\":3"));
}

/* Another query occupies the thread, so that this one is certainly waiting or running. */
static void test_abandon_while_a_query_is_pending(void **state)
{
    struct exchange *running = start(state, QUERY("1"));
    struct exchange *waiting = start(state, "[" QUERY("2") "," EVENTS("3") "]");

    assert_non_null(running);
    assert_non_null(waiting);
    exchange_abandon(waiting);
    exchange_abandon(running);
    assert_int_equal(done_count, 0);
    /* A later query is answered after the abandoned one has ended. */
    assert_non_null(start(state, QUERY("4")));
    await_done(state);
    find("\"id\":4");
    assert_null(strstr(text_string(&output), "\"id\":1"));
    assert_null(strstr(text_string(&output), "\"id\":3"));
}

static void test_user_with_too_many_queries(void **state)
{
    struct exchange *pending[QUERY_THREAD_WAITING_PER_USER + 1];

    for (size_t i = 0; i < ARRAY_SIZE(pending); i++)
        assert_non_null(pending[i] = start(state, QUERY("1")));
    assert_null(start(state, QUERY("2")));
    assert_int_equal(done_count, 1);
    find("-32001");
    for (size_t i = ARRAY_SIZE(pending); i-- > 0;)
        exchange_abandon(pending[i]);
}

static void test_batch_with_too_many_requests(void **state)
{
    _cleanup_text_ struct text line = {0};

    text_append_char(&line, '[');
    for (int i = 0; i <= RPC_BATCH_MAX; i++)
        text_printf(&line, "%s%s", i ? "," : "", EVENTS("1"));
    text_append_char(&line, ']');
    assert_null(start(state, text_string(&line)));
    assert_is_line();
    find("-32600");
    assert_null(strstr(text_string(&output), "\"result\""));
}

static void test_answers_that_are_too_large_together(void **state)
{
    static char command[4096];
    struct daemon_world *world = *state;
    struct snapshot *snapshot = snapshot_new();
    const size_t count = 1200;

    assert_non_null(snapshot);
    memset(command, 'x', sizeof(command) - 1);
    snapshot->processes.items =
        arena_alloc(&snapshot->arena, count * sizeof(snapshot->processes.items[0]));
    snapshot->processes.count = count;
    for (size_t i = 0; i < count; i++) {
        record_init(&process_metric_record, &snapshot->processes.items[i]);
        snapshot->processes.items[i].pid = (int64_t)i + 1;
        snapshot->processes.items[i].uid = 1000;
        snapshot->processes.items[i].command = command;
    }
    live_note_snapshot(&world->daemon.live, snapshot);
    snapshot_unref(snapshot);
    assert_null(start(state, "[" TOP("1") "," TOP("2") "," EVENTS("3") "]"));
    assert_true(output.length > 4 * 1024 * 1024);
    assert_true(output.length < 8 * 1024 * 1024);
    const char *tail = output.bytes + output.length - 600;
    assert_has(tail, "\"id\":2");
    assert_has(tail, "-32001");
    assert_has(tail, "\"id\":3");
}

/* The words of redaction change while a query is pending: for the rest of the batch, and for the
 * request that waits for the query. */
static void test_reload_before_a_request_is_handled(void **state)
{
#define START(job, more)                                                                           \
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"job.start\",\"params\":{\"job_id\":\"" job         \
    "\",\"command\":\"login hush=leise\"" more "}}"
    static const char *const lines[] = {
        "[" QUERY("1") "," START("a", "") "]",
        START("b", ",\"run_id\":\"0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b\""),
    };
    static const char other[] = "profiler: {redact: [hush]}";
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    struct config *former = daemon->config;
    _cleanup_config_errors_ struct config_errors errors = {0};

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        size_t position = 0, found = 0;
        done_count = 0;
        assert_non_null(start(state, lines[i]));
        assert_int_equal(config_load_bytes("test", other, strlen(other), &daemon->config, &errors),
                         0);
        await_done(state);
        for (struct lifecycle_entry *entry;
             (entry = map_next(&daemon->lifecycle.entries, &position)); found++)
            assert_string_equal(entry->begun.command, "login hush=***");
        assert_int_equal(found, i + 1);
        config_free(daemon->config);
        daemon->config = former;
    }
}

static void test_daemon_that_is_stopping(void **state)
{
    struct daemon_world *world = *state;

    world->daemon.is_stopping = true;
    assert_null(start(state, QUERY("1")));
    find("-32003");
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_answers_of_a_batch_are_in_order),
        T(test_single_request_is_no_list),
        T(test_line_that_is_not_json),
        T(test_batch_with_an_invalid_request),
        T(test_notification_gets_no_answer),
        T(test_query_delays_the_later_requests),
        T(test_several_queries_in_a_line),
        T(test_abandon_while_a_query_is_pending),
        T(test_user_with_too_many_queries),
        T(test_batch_with_too_many_requests),
        T(test_answers_that_are_too_large_together),
        T(test_reload_before_a_request_is_handled),
        T(test_daemon_that_is_stopping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
