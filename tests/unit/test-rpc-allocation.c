/* Every allocation between the bytes of a client and an answer, and between an event and its
 * subscribers, fails once, and then all from it on: each time an error is returned or a loss is
 * counted, nothing crashes or leaks (under ASan), and the next attempt works. Linked with
 * -Wl,--wrap for our own allocators; those of the JSON parser fail through its own hooks. */
#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "daemon/bus.h"
#include "daemon/methods.h"
#include "failing-allocator.h"
#include "rpc/codec.h"

static bool parser_failed; /* one of the JSON parser's */

static void *parser_malloc(size_t size)
{
    if (!fails())
        return __real_malloc(size);
    parser_failed = true;
    return NULL;
}

static int set_up_parser(void **state _unused_)
{
    json_set_alloc_funcs(parser_malloc, free);
    return 0;
}

/* ---- requests and answers ---- */

static const char stream[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"job.start\",\"params\":{\"job_id\":\"build\","
    "\"command\":\"make token=x password=abcdef\",\"pid\":5,\"unique\":true,\"started_at\":1.5}}\n"
    "[{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"daemon.monitor.stream\",\"params\":{"
    "\"events\":"
    "[\"sheet.*\",\"*\"]}},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"job.strat\"},7]\n"
    "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"job.finish\",\"params\":{\"job_id\":\"a\","
    "\"outcome\":\"sucess\"}}\n"
    "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"job.finish\",\"params\":{\"job_id\":\"a\","
    "\"outcome\":\"failure\",\"cause\":\"token=abcdef\",\"chain\":[{\"timestamp\":1,\"pid\":2,"
    "\"event_type\":\"exit\",\"command\":\"login token=abcdef\"}]}}\n"
    "[]\n"
    "{\"jsonrpc\":\n"
    "[[[[[[[[[[[[[[[[[[[[\n";

static const char *word_items[] = {"token", "password"};
static const struct text_list words = {word_items, ARRAY_SIZE(word_items)};

static int answer(const char *line, size_t length, struct text *out)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_message message;

    int r = rpc_message_parse(&daemon_methods, line, length, &arena, &message);
    for (size_t i = 0; r == 0 && i < message.count; i++) {
        struct rpc_request *request = &message.items[i];
        r = rpc_request_redact(request, &words, &arena);
        if (request->error)
            rpc_write_error(out, request->id, request->error, request->error_text);
        else
            rpc_write_result(out, request->id, "{}", 2);
        text_append_char(out, '\n');
    }
    return r < 0 ? r : text_error(out);
}

static int read_answers(const struct text *answers)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(rpc_framer_done) struct rpc_framer framer = {0};
    const char *line;
    size_t length;

    int r = rpc_framer_feed(&framer, answers->bytes, answers->length);
    while (r == 0 && rpc_framer_next(&framer, &line, &length)) {
        struct rpc_reply reply;
        r = rpc_reply_parse(line, length, &arena, &reply);
        if (r == -EBADMSG && parser_failed)
            r = -ENOMEM; /* the parser does not always know why it failed */
    }
    return r;
}

static int serve(void)
{
    _cleanup_(rpc_framer_done) struct rpc_framer framer = {0};
    _cleanup_text_ struct text out = {0};
    const char *line;
    size_t length;

    int r = rpc_framer_feed(&framer, stream, strlen(stream));
    while (r == 0 && rpc_framer_next(&framer, &line, &length))
        r = answer(line, length, &out);
    return r < 0 ? r : read_answers(&out);
}

/* ---- the bus ---- */

static int take(void *context, const struct bus_event *event _unused_)
{
    ++*(size_t *)context;
    return 0;
}

static int64_t owner_of(void *context _unused_, const char *run_id _unused_)
{
    return 1000;
}

static int subscribe(struct bus *bus, const struct bus_view *view, size_t *count)
{
    static const char *const patterns[] = {"job.*", "monitor.snapshot"};
    struct bus_subscriber *subscriber;

    return bus_subscribe(bus, patterns, 2, view, take, count, &subscriber);
}

static struct snapshot *snapshot;

/* Events that are not delivered are counted. */
static int publish(void)
{
    size_t delivered = 0;
    struct bus *bus = NULL;

    int r = bus_new(&bus);
    if (r == 0)
        r = subscribe(bus, &(struct bus_view){.sees_all = true}, &delivered);
    if (r == 0)
        r = subscribe(bus, &(struct bus_view){.uid = 1000, .job = "a"}, &delivered);
    if (r == 0) {
        bus_publish(bus, &(struct bus_message){.event = "job.started", .is_public = true});
        bus_publish_snapshot(bus, snapshot, owner_of, NULL);
        assert_int_equal(delivered + bus_drops(bus).events, 4);
        r = delivered < 4 ? -ENOMEM : 0;
    }
    bus_free(bus);
    return r;
}

static int set_up_snapshot(void **state _unused_)
{
    static int64_t zombies[] = {2};

    snapshot = snapshot_new();
    struct process_metric *processes = arena_alloc(&snapshot->arena, 3 * sizeof(*processes));
    for (int i = 0; i < 3; i++) {
        record_init(&process_metric_record, &processes[i]);
        processes[i].pid = i;
        processes[i].job_id = "a";
        processes[i].run_id = "run";
    }
    snapshot->processes = (struct process_list){processes, 3};
    snapshot->zombie_pids = (struct int_list){zombies, 1};
    return 0;
}

static int tear_down_snapshot(void **state _unused_)
{
    snapshot_free(snapshot);
    return 0;
}

/* ---- failing ---- */

/* A failure is an error, except for a parser without memory: it may report the text as invalid. */
static int check(int (*act)(void))
{
    long site = countdown;

    parser_failed = false;
    int r = act();
    if (has_failed() && r == 0 && !parser_failed)
        fail_msg("allocation %ld failed without an error", site);
    return r;
}

static int serve_checked(void)
{
    return check(serve);
}

static int publish_checked(void)
{
    return check(publish);
}

static void test_requests(void **state _unused_)
{
    fail_each_allocation(serve_checked, false, 50);
    fail_each_allocation(serve_checked, true, 50);
}

static void test_bus(void **state _unused_)
{
    fail_each_allocation(publish_checked, false, 10);
    fail_each_allocation(publish_checked, true, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test_setup_teardown(test_bus, set_up_snapshot, tear_down_snapshot),
    };
    return cmocka_run_group_tests(tests, set_up_parser, NULL);
}
