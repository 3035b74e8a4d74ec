#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "daemon/methods.h"
#include "model/event.h"
#include "model/job.h"
#include "model/process.h"
#include "rpc/codec.h"

/* ---- the table ---- */

static void check_param(const struct rpc_method *method, size_t i)
{
    const struct rpc_param *param = &method->params[i];

    assert_non_null(param->name);
    assert_non_null(param->meaning);
    for (size_t k = 0; k < i; k++)
        assert_string_not_equal(param->name, method->params[k].name);
    const bool is_named = param->type == RPC_ENUM || param->type == RPC_ENUMS;
    assert_true(is_named == (param->names != NULL));
    assert_true((param->type == RPC_RECORDS) == (param->record != NULL));
    assert_true((param->type == RPC_BOOL) == (param->max == 0));
    for (int k = (int)param->min; is_named && k <= (int)param->max; k++)
        assert_non_null(param->names[k]);
    assert_true(param->type != RPC_ENUMS || param->max < 32); /* the bits of a set */
    assert_true(param->max <= RPC_NUMBER_MAX);
    assert_true(!param->is_required || param->fallback == 0);
    if (param->fallback != 0)
        assert_true(param->fallback > param->min && param->fallback <= param->max);
}

static void test_table_is_complete(void **state _unused_)
{
    for (size_t i = 0; i < daemon_methods.count; i++) {
        const struct rpc_method *method = daemon_methods.items[i];
        assert_non_null(method->name);
        assert_non_null(method->summary);
        assert_non_null(method->result);
        assert_non_null(method->handler);
        /* no name twice */
        assert_ptr_equal(rpc_methods_find(&daemon_methods, method->name), method);
        assert_in_range(method->param_count, 0, RPC_PARAMS_MAX);
        for (size_t k = 0; k < method->param_count; k++)
            check_param(method, k);
    }
    assert_null(rpc_methods_find(&daemon_methods, "job.stop"));
    assert_null(rpc_methods_find(&daemon_methods, ""));
}

static void test_documentation_has_every_parameter(void **state _unused_)
{
    _cleanup_text_ struct text out = {0};
    char wanted[80];

    rpc_methods_markdown(&daemon_methods, &out);
    for (size_t i = 0; i < daemon_methods.count; i++) {
        const struct rpc_method *method = daemon_methods.items[i];
        snprintf(wanted, sizeof(wanted), "### `%s`\n", method->name);
        const char *chapter = strstr(text_string(&out), wanted);
        assert_non_null(chapter);
        for (size_t k = 0; k < method->param_count; k++) {
            snprintf(wanted, sizeof(wanted), "\n| `%s` | ", method->params[k].name);
            assert_non_null(strstr(chapter, wanted));
        }
    }
    assert_non_null(strstr(text_string(&out), "a whole number from 1 to 200; default 50"));
    assert_non_null(strstr(text_string(&out), "a number more than 0, at most 86400"));
    assert_non_null(strstr(text_string(&out), "one of success, failure, unknown | yes |"));
    assert_non_null(strstr(text_string(&out), "| `sheet_num` | a whole number, 0 or more | yes |"));
}

/* ---- requests ---- */

static struct arena arena;

static int tear_down(void **state _unused_)
{
    arena_done(&arena);
    return 0;
}

static const char *word_items[] = {"token", "password"};
static const struct text_list words = {word_items, ARRAY_SIZE(word_items)};

/* From a copy that ends where the text does, so that reads past it are seen. */
static struct rpc_message parse_bytes(const char *bytes, size_t length)
{
    struct rpc_message message;
    char *copy = malloc(length + !length);

    assert_non_null(copy);
    memcpy(copy, bytes, length);
    assert_int_equal(rpc_message_parse(&daemon_methods, copy, length, &arena, &message), 0);
    free(copy);
    for (size_t i = 0; i < message.count; i++)
        assert_int_equal(rpc_request_redact(&message.items[i], &words, &arena), 0);
    return message;
}

static struct rpc_message parse(const char *line)
{
    return parse_bytes(line, strlen(line));
}

static const struct rpc_request *parse_one(const char *line)
{
    struct rpc_message message = parse(line);

    assert_false(message.is_batch);
    assert_int_equal(message.count, 1);
    return &message.items[0];
}

#define CALL(method, params)                                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":" params "}"
#define RUN_ID "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"

/* Every text that may hold a command line has the mark, so that no handler needs to redact. */
static void test_command_lines_are_marked(void **state _unused_)
{
    static const char *const names[] = {"command",  "sender_command", "details", "cause",
                                        "job_type", "status",         "name",    "cwd"};

    for (size_t i = 0; i < daemon_methods.count; i++)
        for (size_t k = 0; k < daemon_methods.items[i]->param_count; k++) {
            const struct rpc_param *param = &daemon_methods.items[i]->params[k];
            bool is_rate_limit = daemon_methods.items[i] == &method_pressure_report_rate_limit;
            for (size_t n = 0; n < ARRAY_SIZE(names); n++)
                if (strcmp(param->name, names[n]) == 0 && !is_rate_limit)
                    assert_true(param->holds_command);
        }
}

static void test_command_lines_are_redacted(void **state _unused_)
{
    char line[1000], longest[COMMAND_MAX_BYTES + 1];
    const struct rpc_request *request = parse_one(
        CALL("job.start", "{\"job_id\":\"token=abc\",\"command\":\"login --password abc x\","
                          "\"job_type\":\"env token=abc\",\"cwd\":\"/token=abc\"}"));

    assert_string_equal(rpc_text(request, "command"), "login --password *** x");
    assert_string_equal(rpc_text(request, "job_type"), "env token=***");
    assert_string_equal(rpc_text(request, "job_id"), "token=abc"); /* a name, which must stay */
    assert_string_equal(rpc_text(request, "cwd"), "/token=***");

    request = parse_one(
        CALL("job.finish",
             "{\"job_id\":\"x\",\"outcome\":\"failure\",\"cause\":\"login token=abc failed\","
             "\"chain\":[{\"timestamp\":1,\"pid\":2,\"event_type\":\"exit\",\"exit_code\":3,"
             "\"command\":\"login token=abc\",\"sender_command\":\"kill password=abc\","
             "\"details\":\"https://ada:abc@host\"}]}"));
    assert_int_equal(request->error, 0);
    assert_string_equal(rpc_text(request, "cause"), "login token=*** failed");
    const struct process_event *end = rpc_records(request, "chain").items;
    assert_string_equal(end->command, "login token=***");
    assert_string_equal(end->sender_command, "kill password=***");
    assert_string_equal(end->details, "https://ada:***@host");

    request = parse_one(CALL("job.signal", "{\"job_id\":\"x\",\"pid\":2,\"signal_num\":15,"
                                           "\"sender_command\":\"kill token=abc\"}"));
    assert_string_equal(rpc_text(request, "sender_command"), "kill token=***");

    /* The result grows, and is cut at the limit of the parameter. */
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "token=a ", 8);
    longest[COMMAND_MAX_BYTES] = '\0';
    snprintf(line, sizeof(line), CALL("job.start", "{\"job_id\":\"x\",\"command\":\"%s\"}"),
             longest);
    request = parse_one(line);
    assert_int_equal(strlen(rpc_text(request, "command")), COMMAND_MAX_BYTES);
    assert_memory_equal(rpc_text(request, "command"), "token=*** xx", 12);
}

static void test_request_with_values(void **state _unused_)
{
    const struct rpc_request *request = parse_one(CALL(
        "job.start", "{\"job_id\":\"büild\",\"total_sheets\":3,\"unique\":true,\"run_id\":\"" RUN_ID
                     "\",\"started_at\":1789000000.5,\"command\":\"sh -c 'a\\nb'\","
                     "\"cwd\":null}"));

    assert_int_equal(request->error, 0);
    assert_ptr_equal(request->method, &method_job_start);
    assert_string_equal(request->id, "1");
    assert_string_equal(rpc_text(request, "job_id"), "büild");
    assert_string_equal(rpc_text(request, "run_id"), RUN_ID);
    assert_string_equal(rpc_text(request, "command"), "sh -c 'a\nb'");
    assert_null(rpc_text(request, "cwd"));
    assert_null(rpc_text(request, "job_type"));
    assert_null(rpc_value(request, "no_such_parameter"));
    assert_int_equal(rpc_int(request, "total_sheets", -1), 3);
    assert_int_equal(rpc_int(request, "pid", -1), -1);
    assert_true(rpc_bool(request, "unique", false));
    assert_true(rpc_bool(request, "adopts_orphans", true));
    assert_true(rpc_real(request, "started_at", 0) == 1789000000.5);
}

#define FAILED(chain)                                                                              \
    CALL("job.finish", "{\"job_id\":\"a\",\"outcome\":\"failure\",\"chain\":" chain "}")
#define LINK "{\"timestamp\":7,\"pid\":5,\"event_type\":\"exit\",\"exit_code\":3"

static void test_request_with_records(void **state _unused_)
{
    _cleanup_text_ struct text large = {0};

    const struct rpc_request *request =
        parse_one(FAILED("[" LINK ",\"command\":\"a\\nb\"}," LINK "}]"));
    assert_int_equal(request->error, 0);
    struct any_list chain = rpc_records(request, "chain");
    assert_int_equal(chain.count, 2);
    const struct process_event *links = chain.items;
    assert_int_equal(links[1].event_type, EVENT_EXIT);
    assert_int_equal(links[1].exit_code, 3);
    assert_string_equal(links[0].command, "a\nb");
    assert_int_equal(rpc_records(parse_one(FAILED("[]")), "chain").count, 0);
    assert_int_equal(rpc_records(parse_one(FAILED("null")), "chain").count, 0);

    const char *const refused[] = {FAILED("{}"), FAILED("[1]"), FAILED("[{}]"),
                                   FAILED("[" LINK ",\"command\":5}]"),
                                   FAILED("[" LINK ",\"command\":\"a\\u0000b\"}]")};
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        request = parse_one(refused[i]);
        assert_int_equal(request->error, RPC_INVALID_PARAMS);
        assert_non_null(strstr(request->error_text, "'chain"));
    }
    text_append_string(&large, FAILED("["));
    large.length -= strlen("}}");
    for (int i = 0; i <= RPC_CHAIN_MAX; i++)
        text_printf(&large, "%s" LINK "}", i ? "," : "");
    text_append_string(&large, "]}}");
    request = parse_one(text_string(&large));
    assert_int_equal(request->error, RPC_INVALID_PARAMS);
    assert_non_null(
        strstr(request->error_text, "'chain' has 17 items, but must be a list of at most 16"));

    large.length = 0;
    text_append_string(&large, FAILED("[" LINK ",\"command\":\""));
    large.length -= strlen("}}");
    for (int i = 0; i < RPC_RECORD_MAX_BYTES; i++)
        text_append_char(&large, 'x');
    text_append_string(&large, "\"}]}}");
    request = parse_one(text_string(&large));
    assert_int_equal(request->error, RPC_INVALID_PARAMS);
    assert_non_null(strstr(request->error_text, "'chain[0]' has 16"));
}

static void test_request_with_enumerations_and_lists(void **state _unused_)
{
    const struct job_profile *profile;
    const struct rpc_request *request =
        parse_one(CALL("job.finish", "{\"job_id\":\"a\",\"outcome\":\"failure\",\"wall_seconds\":2,"
                                     "\"cpu_exactness\":\"lower_bound\"}"));
    assert_int_equal(request->error, 0);
    assert_int_equal(rpc_enum(request, "outcome", -1), OUTCOME_FAILURE);
    profile = request->record;
    assert_int_equal(profile->exactness.cpu_seconds, LOWER_BOUND); /* by the names of 0.1.0 */
    assert_int_equal(profile->exactness.system_seconds, LOWER_BOUND);
    assert_int_equal(profile->exactness.peak_rss_mb, EXACTNESS_UNKNOWN);
    assert_true(profile->wall_seconds == 2); /* an integer is a number */
    assert_false(real_is_known(profile->cpu_seconds));

    request =
        parse_one(CALL("daemon.monitor.stream", "{\"events\":[\"sheet.*\",\"job.started\"]}"));
    assert_int_equal(request->error, 0);
    const struct rpc_value *events = rpc_value(request, "events");
    assert_int_equal(events->texts.count, 2);
    assert_string_equal(events->texts.items[1], "job.started");

    request = parse_one(CALL("events.list", "{\"type\":\"oom\"}"));
    assert_int_equal(rpc_enum(request, "type", -1), EVENT_OOM);
    request = parse_one(CALL("events.list", "{\"types\":[\"oom\",\"kill\"]}"));
    assert_int_equal(rpc_enums(request, "types"),
                     EVENT_TYPE_BIT(EVENT_OOM) | EVENT_TYPE_BIT(EVENT_KILL));
    request = parse_one(CALL("events.list", "{\"types\":[\"oom\",\"kil\"]}"));
    assert_int_equal(request->error, RPC_INVALID_PARAMS);
    assert_string_equal(request->error_text,
                        "events.list: 'types[1]' is \"kil\", but must be one of spawn, exec, exit, "
                        "signal, kill, oom; did you mean 'kill'?");
    request = parse_one(CALL("job.list", "{\"outcome\":\"running\"}"));
    assert_int_equal(rpc_enum(request, "outcome", -1), OUTCOME_RUNNING);
}

/* Figures of a run are fields of a record, also under the names of 0.1.0. */
static void test_request_with_figures(void **state _unused_)
{
    const struct rpc_request *request = parse_one(
        CALL("job.finish", "{\"job_id\":\"a\",\"outcome\":\"success\",\"cpu_seconds\":1.5,"
                           "\"peak_rss_mb\":null,\"left_running\":2,\"collector\":\"bpf\","
                           "\"syscall_source\":\"strace\",\"syscall_counts\":{\"read\":7},"
                           "\"left_running_count\":2,\"exactness\":{\"cpu_seconds\":\"exact\"},"
                           "\"total_exactness\":null}"));
    const struct job_profile *profile = request->record;

    assert_int_equal(request->error, 0);
    assert_true(profile->cpu_seconds == 1.5);
    assert_false(real_is_known(profile->peak_rss_mb));
    assert_int_equal(profile->left_running_count, 2);
    assert_string_equal(profile->collector, "bpf");
    assert_int_equal(profile->syscall_source, SYSCALLS_STRACE);
    assert_true(tally_find(&profile->syscall_counts, "read")->value == 7);
    assert_int_equal(profile->exactness.cpu_seconds, EXACT);
    assert_int_equal(profile->exactness.processes, EXACTNESS_UNKNOWN);

    request = parse_one(CALL("job.finish", "{\"job_id\":\"a\",\"outcome\":\"success\","
                                           "\"process_spawn_count\":null,\"processes\":3,"
                                           "\"exactness\":null,\"total_exactness\":\"sampled\"}"));
    profile = request->record;
    assert_int_equal(request->error, 0);
    assert_int_equal(profile->processes, 3);
    assert_int_equal(profile->exactness.peak_total_mb, SAMPLED);
    assert_int_equal(profile->exactness.peak_unique_mb, SAMPLED);
}

/* A field of a run can be reported only if a parameter can have its type. */
static void test_reported_fields_have_parameters(void **state _unused_)
{
    for (size_t i = 0; i < job_profile_record.field_count; i++) {
        const struct field *field = &job_profile_record.fields[i];
        struct rpc_param param = rpc_param_of_field(field);
        assert_true(!field->is_reported || (param.type == RPC_TEXT) == (field->type == FIELD_TEXT));
    }
}

/* Many unknown parameters: the error is not longer than other errors. */
static void test_many_unknown_parameters(void **state _unused_)
{
    _cleanup_text_ struct text line = {0};

    text_append_string(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"job.list\",\"params\":{");
    for (int i = 0; i < 1000; i++)
        text_printf(&line, "%s\"figure_%d\":1", i ? "," : "", i);
    text_append_string(&line, "}}");
    const struct rpc_request *request = parse_one(text_string(&line));
    assert_int_equal(request->error, RPC_INVALID_PARAMS);
    assert_non_null(
        strstr(request->error_text, "there are no parameters 'figure_0', 'figure_1', "));
    assert_non_null(strstr(request->error_text, " more"));
    assert_in_range(strlen(request->error_text), 100, 500);
}

static void test_defaults_are_those_of_the_table(void **state _unused_)
{
    assert_int_equal(rpc_int(parse_one(CALL("daemon.events", "{}")), "limit", -1), 50);
    assert_int_equal(rpc_int(parse_one(CALL("daemon.events", "{\"limit\":7}")), "limit", -1), 7);
    assert_int_equal(rpc_int(parse_one(CALL("job.list", "{\"limit\":null}")), "limit", -1), 100);
    assert_true(rpc_real(parse_one(CALL("pressure.report_rate_limit", "{\"name\":\"api\"}")),
                         "seconds", -1) == 60);
}

static void test_params_may_be_left_out(void **state _unused_)
{
    static const char *const lines[] = {
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.status\"}",
        CALL("daemon.status", "{}"),
        CALL("daemon.status", "[]"),
        CALL("daemon.status", "null"),
    };

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        assert_int_equal(parse_one(lines[i])->error, 0);
        assert_ptr_equal(parse_one(lines[i])->method, &method_daemon_status);
    }
}

static void test_id_is_returned_unchanged(void **state _unused_)
{
    static const char *const ids[] = {
        "0",        "-7",   "1.10", "1e2", "9223372036854775807", "\"a\"", "\"\\u00e9/\\/\"",
        "\"日本\"", "null", "\"\"",
    };
    char line[256];

    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        snprintf(line, sizeof(line),
                 " {\"method\" : \"daemon.status\",\"x\":[{\"id\":5},\"}\\\"\"],\"id\"\t:%s ,"
                 "\"jsonrpc\":\"2.0\"}",
                 ids[i]);
        assert_int_equal(parse_one(line)->error, 0);
        assert_string_equal(parse_one(line)->id, ids[i]);
    }
    assert_string_equal(
        parse_one("{\"jsonrpc\":\"2.0\",\"\\u0069d\":4,\"method\":\"daemon.status\"}")->id, "4");
}

static void test_longest_id(void **state _unused_)
{
    char line[RPC_ID_MAX_BYTES + 100];

    for (int length = RPC_ID_MAX_BYTES - 2; length <= RPC_ID_MAX_BYTES - 1; length++) {
        snprintf(line, sizeof(line),
                 "{\"jsonrpc\":\"2.0\",\"id\":\"%0*d\",\"method\":\"daemon.status\"}", length, 0);
        bool fits = length + 2 <= RPC_ID_MAX_BYTES;
        assert_int_equal(parse_one(line)->error, fits ? 0 : RPC_INVALID_REQUEST);
        if (!fits)
            assert_string_equal(parse_one(line)->id, "null");
    }
}

/* ---- rejected requests ---- */

struct refusal {
    const char *line;
    int code;
    const char *id;   /* NULL: it is not answered */
    const char *says; /* a part of the message */
};

static void expect_refusals(const struct refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct rpc_request *request = parse_one(refusals[i].line);
        if (request->error != refusals[i].code || !strstr(request->error_text, refusals[i].says))
            fail_msg("%s: %d %s", refusals[i].line, request->error, request->error_text);
        assert_null(request->method);
        if (refusals[i].id)
            assert_string_equal(request->id, refusals[i].id);
        else
            assert_null(request->id);
    }
}

static void test_rejected_lines(void **state _unused_)
{
    static const struct refusal refusals[] = {
        {"{", RPC_PARSE_ERROR, "null", "not valid JSON: column 1"},
        {"", RPC_PARSE_ERROR, "null", "not valid JSON"},
        {"{} {}", RPC_PARSE_ERROR, "null", "not valid JSON"},
        {"{\"a\":\033[0m}", RPC_PARSE_ERROR, "null", "near '\\x1b'"},
        {"{\"a\\u0000\":1}", RPC_PARSE_ERROR, "null", "not valid JSON"},
        {"{\"a\":\"\xff\"}", RPC_PARSE_ERROR, "null", "not valid JSON"},
        {"{\"id\":1,\"id\":2}", RPC_PARSE_ERROR, "null", "duplicate object key"},
        {"{\"id\":123456789012345678901234567890}", RPC_PARSE_ERROR, "null", "too big integer"},
        {"[]", RPC_INVALID_REQUEST, "null", "the batch is empty"},
        {"5", RPC_INVALID_REQUEST, "null", "a request is an object"},
        {"\"daemon.status\"", RPC_INVALID_REQUEST, "null", "a request is an object"},
        {"null", RPC_INVALID_REQUEST, "null", "a request is an object"},
        {"{}", RPC_INVALID_REQUEST, "null", "'jsonrpc' must be \"2.0\""},
        {"{\"id\":3}", RPC_INVALID_REQUEST, "3", "'jsonrpc'"},
        {"{\"id\":3,\"jsonrpc\":2.0,\"method\":\"daemon.status\"}", RPC_INVALID_REQUEST, "3",
         "'jsonrpc'"},
        {"{\"id\":3,\"jsonrpc\":\"1.0\",\"method\":\"daemon.status\"}", RPC_INVALID_REQUEST, "3",
         "'jsonrpc'"},
        {"{\"jsonrpc\":\"2.0\",\"id\":3}", RPC_INVALID_REQUEST, "3", "'method' must be text"},
        {"{\"jsonrpc\":\"2.0\",\"method\":1,\"params\":\"bar\"}", RPC_INVALID_REQUEST, "null",
         "'method'"},
        {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"daemon.status\"}", RPC_INVALID_REQUEST,
         "null", "'id' must be"},
        {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"daemon.status\"}", RPC_INVALID_REQUEST,
         "null", "'id' must be"},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0000\",\"method\":\"daemon.status\"}",
         RPC_INVALID_REQUEST, "null", "'id' must be"},
        {CALL("daemon.status", "\"x\""), RPC_INVALID_REQUEST, "1", "'params' must be an object"},
        {CALL("daemon.statu", "{}"), RPC_METHOD_NOT_FOUND, "1",
         "there is no method 'daemon.statu'; did you mean 'daemon.status'?"},
        {CALL("\\u001b[2J\\u202e", "{}"), RPC_METHOD_NOT_FOUND, "1",
         "there is no method '\\x1b[2J\\u202e'"},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"daemon.statu\"}", RPC_METHOD_NOT_FOUND, NULL,
         "daemon.statu"},
        {"{\"jsonrpc\":\"2.0\",\"method\":\"daemon.events\",\"params\":{\"limit\":0}}",
         RPC_INVALID_PARAMS, NULL, "limit"},
    };

    expect_refusals(refusals, ARRAY_SIZE(refusals));
}

static void test_rejected_parameters(void **state _unused_)
{
#define REFUSED(method, params, says)                                                              \
    {                                                                                              \
        CALL(method, params), RPC_INVALID_PARAMS, "1", says                                        \
    }
    static const struct refusal refusals[] = {
        REFUSED("job.start", "[\"a\"]", "job.start: 'params' must be an object"),
        REFUSED("job.start", "{}", "job.start: 'job_id' is missing: text of at most 128 bytes"),
        REFUSED("job.start", "{\"job_id\":null}", "'job_id' is missing"),
        REFUSED("job.start", "{\"jobid\":\"a\"}",
                "there is no parameter 'jobid'; did you mean 'job_id'?"),
        REFUSED("job.start", "{\"\\n\\u0007\":1}", "there is no parameter '\\n\\a'"),
        REFUSED("job.start", "{\"job_id\":5}", "'job_id' is 5, but must be text of at most"),
        REFUSED("job.start", "{\"job_id\":[]}", "'job_id' is a list, but must be text"),
        REFUSED("job.start", "{\"job_id\":{\"a\":1}}", "'job_id' is an object, but must be text"),
        REFUSED("job.start", "{\"job_id\":\"\"}", "'job_id' \"\" is empty"),
        REFUSED("job.start", "{\"job_id\":\"a~1\"}", "'job_id' \"a~1\" contains '~'"),
        REFUSED("job.start", "{\"job_id\":\"a\\u001b[0m\"}",
                "'job_id' \"a\\x1b[0m\" contains a control character"),
        REFUSED("job.start", "{\"job_id\":\"a\\u0000b\"}", "contains a NUL"),
        REFUSED("job.start", "{\"job_id\":\"a\",\"job_type\":\"a\\nb\"}",
                "'job_type' \"a\\nb\" contains a control"),
        REFUSED("job.start", "{\"job_id\":\"a\",\"run_id\":\"x\"}", "'run_id' \"x\" is not a UUID"),
        REFUSED("job.start",
                "{\"job_id\":\"a\",\"run_id\":\"0190A1B2-c3d4-7e5f-8a9b-0c1d2e3f4a5b\"}",
                "is not a UUID"),
        REFUSED("job.start",
                "{\"job_id\":\"a\",\"run_id\":\"0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5\"}",
                "is not a UUID"),
        REFUSED("job.start", "{\"job_id\":\"a\",\"unique\":1}",
                "'unique' is 1, but must be true or false"),
        REFUSED("job.start", "{\"job_id\":\"a\",\"total_sheets\":0}",
                "'total_sheets' is 0, but must be a whole number, 1 or more"),
        REFUSED("job.start", "{\"job_id\":\"a\",\"total_sheets\":5.0}",
                "'total_sheets' is 5.0, but must be a whole number"),
        REFUSED("job.start", "{\"job_id\":\"a\",\"total_sheets\":9007199254740992}",
                "1 or more, at most 9007199254740991"),
        REFUSED("job.start", "{\"job_id\":\"a\",\"sheet_num\":5.0}", "'sheet_num' is 5.0, but"),
        REFUSED("job.start", "{\"job_id\":\"a\",\"pid\":4194305}",
                "'pid' is 4194305, but must be a whole number from 1 to 4194304"),
        REFUSED("job.start", "{\"job_id\":\"a\",\"started_at\":\"now\"}",
                "'started_at' is \"now\", but must be a number of Unix seconds"),
        REFUSED("job.start", "{\"job_id\":\"a\",\"started_at\":1789000000000}",
                "'started_at' is 1789000000000, but must be a number of Unix seconds, up to"),
        REFUSED("daemon.events", "{\"limit\":201}",
                "'limit' is 201, but must be a whole number from 1 to 200"),
        REFUSED("daemon.events", "{\"limit\":-1}", "'limit' is -1"),
        REFUSED("daemon.events", "{\"limit\":true}", "'limit' is true"),
        REFUSED("pressure.report_rate_limit", "{\"name\":\"a\",\"seconds\":0}",
                "'seconds' is 0, but must be a number more than 0, at most 86400"),
        REFUSED("pressure.report_rate_limit", "{\"name\":\"a\",\"seconds\":86400.5}",
                "'seconds' is 86400.5"),
        REFUSED("job.finish", "{\"job_id\":\"a\"}",
                "'outcome' is missing: one of success, failure, unknown"),
        REFUSED("job.finish", "{\"job_id\":\"a\",\"outcome\":\"sucess\"}",
                "'outcome' is \"sucess\", but must be one of success, failure, unknown; did you "
                "mean 'success'?"),
        REFUSED("job.finish", "{\"job_id\":\"a\",\"outcome\":\"running\"}", "'outcome' is"),
        REFUSED("job.finish", "{\"job_id\":\"a\",\"outcome\":\"failure\",\"exit_code\":-9}",
                "'exit_code' is -9, but must be a whole number from 0 to 255"),
        REFUSED("job.finish", "{\"job_id\":\"a\",\"outcome\":\"failure\",\"peak_rss_mb\":-1}",
                "job.finish: 'peak_rss_mb' is -1, but must be a number from 0 to 67108864"),
        REFUSED("job.finish", "{\"job_id\":\"a\",\"outcome\":\"failure\",\"processes\":1.5}",
                "'processes' is 1.5, but must be a whole number, 0 or more"),
        REFUSED("job.finish", "{\"job_id\":\"a\",\"outcome\":\"failure\",\"left_running\":[]}",
                "'left_running' is a list, but must be a whole number"),
        REFUSED("job.finish", "{\"job_id\":\"a\",\"outcome\":\"failure\",\"exit_count\":1}",
                "there is no parameter 'exit_count'"),
        REFUSED("job.finish",
                "{\"job_id\":\"a\",\"outcome\":\"failure\",\"rss_exactness\":\"exac\"}",
                "must be one of exact, sampled, lower_bound; did you mean 'exact'?"),
        REFUSED("job.finish",
                "{\"job_id\":\"a\",\"outcome\":\"failure\",\"exactness\":{\"processes\":\"x\"}}",
                "'exactness' is not valid: processes: "),
        REFUSED("job.finish", "{\"a\":1,\"job_id\":\"a\",\"b\\n\":2,\"outcome\":5,\"c\":3}",
                "job.finish: there are no parameters 'a', 'b\\n', 'c'"),
#define FINISH(more) "{\"job_id\":\"a\",\"outcome\":\"failure\"," more "}"
        REFUSED("job.finish", FINISH("\"left_running\":2,\"left_running_count\":3"),
                "job.finish: 'left_running_count' and its older name 'left_running' have different "
                "values"),
        REFUSED("job.finish", FINISH("\"processes\":4,\"process_spawn_count\":5"),
                "'processes' and its older name 'process_spawn_count' have"),
        REFUSED("job.finish", FINISH("\"total_cpu_seconds\":1,\"cpu_seconds\":2"),
                "'cpu_seconds' and its older name 'total_cpu_seconds' have"),
        REFUSED("job.finish", FINISH("\"exactness\":{},\"syscalls_exactness\":\"exact\""),
                "'exactness' and the older 'syscalls_exactness' cannot be given together"),
        REFUSED("job.finish", FINISH("\"exactness\":{\"bogus\":\"exact\",\"bogus2\":1}"),
                "job.finish: 'exactness' has no members 'bogus', 'bogus2'"),
        REFUSED("job.finish", FINISH("\"exactness\":{\"wall_seconds\":\"exact\"}"),
                "job.finish: 'exactness' has no member 'wall_seconds'"),
        REFUSED("job.finish", FINISH("\"exactness\":{\"procesess\":\"exact\"}"),
                "'exactness' has no member 'procesess'; did you mean 'processes'?"),
        REFUSED("job.finish", FINISH("\"exactness\":\"exact\""), "'exactness' is not valid: "),
        REFUSED("job.finish", FINISH("\"syscall_counts\":{\"open\":1,\"read\":\"x\"}"),
                "job.finish: 'syscall_counts.read' is \"x\", but must be a number, 0 or more"),
        REFUSED("job.finish", FINISH("\"syscall_counts\":{\"a\\nb\":1}"),
                "job.finish: 'syscall_counts.a\\nb' has an invalid name"),
        REFUSED("job.finish", FINISH("\"syscall_counts\":[]"),
                "'syscall_counts' is a list, but must be an object of at most 1024 numbers"),
#undef FINISH
        REFUSED("events.list", "{\"types\":\"kill\"}",
                "'types' is \"kill\", but must be a list of 1 or more, each one of spawn, exec"),
        REFUSED("events.list", "{\"types\":[]}", "'types' has 0 items, but must be a list of 1"),
        REFUSED("events.list", "{\"types\":[\"kill\\u0000\"]}", "'types[0]' is \"kill\\x00\""),
        REFUSED("daemon.monitor.stream", "{}", "'events' is missing: a list of 1 to 32 texts"),
        REFUSED("daemon.monitor.stream", "{\"events\":[]}",
                "'events' has 0 items, but must be a list of 1 to 32 texts"),
        REFUSED("daemon.monitor.stream", "{\"events\":\"*\"}",
                "'events' is \"*\", but must be a list of 1 to 32 texts"),
        REFUSED("daemon.monitor.stream", "{\"events\":[\"*\",7]}", "'events[1]' is 7"),
        REFUSED("daemon.status", "{\"verbose\":true}", "there is no parameter 'verbose'"),
    };
#undef REFUSED
    expect_refusals(refusals, ARRAY_SIZE(refusals));
}

static void test_longest_texts(void **state _unused_)
{
    _cleanup_text_ struct text line = {0};

    for (size_t bytes = 500; bytes <= 501; bytes++) {
        text_reset(&line);
        text_append_string(&line,
                           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"job.start\",\"params\":"
                           "{\"job_id\":\"a\",\"command\":\"");
        text_append_repeated(&line, 'x', bytes);
        text_append_string(&line, "\"}}");
        const struct rpc_request *request = parse_one(text_string(&line));
        assert_int_equal(request->error, bytes == 500 ? 0 : RPC_INVALID_PARAMS);
        if (request->error)
            assert_string_equal(request->error_text,
                                "job.start: 'command' has 501 bytes, but at most 500 are allowed");
    }
}

static void test_messages_stay_short_and_plain(void **state _unused_)
{
    static const char *const parts[][2] = {
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"", "\"}"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"job.start\",\"params\":{\"", "\":1}}"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"job.finish\",\"params\":{\"outcome\":\"",
         "\"}}"},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"job.start\",\"params\":{\"job_id\":\"",
         "\"}}"},
        {"{\"", "\":}"},
    };
    _cleanup_text_ struct text line = {0};

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        text_reset(&line);
        text_append_string(&line, parts[i][0]);
        for (size_t k = 0; k < 5000; k++)
            text_append_string(&line, "\\u001b\xC2\x9B");
        text_append_string(&line, parts[i][1]);
        const struct rpc_request *request = parse_one(text_string(&line));
        assert_int_not_equal(request->error, 0);
        assert_in_range(strlen(request->error_text), 1, 400);
        assert_null(strchr(request->error_text, '\033'));
        assert_null(strstr(request->error_text, "\xC2\x9B"));
    }
}

static void append_nested(struct text *out, size_t depth)
{
    text_append_string(
        out, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.status\",\"x\":\"[[[\",\"y\":");
    text_append_repeated(out, '[', depth - 1);
    text_append_repeated(out, ']', depth - 1);
    text_append_char(out, '}');
}

static void test_depth_and_number_of_values(void **state _unused_)
{
    _cleanup_text_ struct text line = {0};

    append_nested(&line, RPC_DEPTH_MAX);
    assert_int_equal(parse_one(text_string(&line))->error, 0);
    text_reset(&line);
    append_nested(&line, RPC_DEPTH_MAX + 1);
    assert_int_equal(parse_one(text_string(&line))->error, RPC_PARSE_ERROR);
    assert_string_equal(parse_one(text_string(&line))->error_text,
                        "the request is nested deeper than 16 levels");

    text_reset(&line);
    text_append_repeated(&line, '[', 500000);
    assert_int_equal(parse_one(text_string(&line))->error, RPC_PARSE_ERROR);

    for (size_t commas = RPC_VALUES_MAX - 1; commas <= RPC_VALUES_MAX; commas++) {
        text_reset(&line);
        text_append_char(&line, '[');
        for (size_t i = 0; i < commas; i++)
            text_append_string(&line, "1,");
        text_append_string(&line, "\",,\"]"); /* in a text they do not count */
        assert_non_null(strstr(parse_one(text_string(&line))->error_text,
                               commas < RPC_VALUES_MAX ? "the batch has 20000 requests"
                                                       : "the request has more than 20000 values"));
    }
}

/* ---- batches ---- */

static void test_batch(void **state _unused_)
{
    struct rpc_message message = parse(
        "[" CALL("daemon.status",
                 "{}") ", 1 ,{\"jsonrpc\":\"2.0\",\"method\":\"daemon.reload\"},"
                       "{\"id\":\"b\"},[],{\"jsonrpc\":\"2.0\",\"id\": 2.50 ,\"method\":\"x\"}]");

    assert_true(message.is_batch);
    assert_int_equal(message.count, 6);
    const struct rpc_request *items = message.items;
    assert_ptr_equal(items[0].method, &method_daemon_status);
    assert_string_equal(items[0].id, "1");
    assert_int_equal(items[1].error, RPC_INVALID_REQUEST);
    assert_string_equal(items[1].id, "null");
    assert_ptr_equal(items[2].method, &method_daemon_reload);
    assert_null(items[2].id);
    assert_int_equal(items[3].error, RPC_INVALID_REQUEST);
    assert_string_equal(items[3].id, "\"b\"");
    assert_int_equal(items[4].error, RPC_INVALID_REQUEST);
    assert_int_equal(items[5].error, RPC_METHOD_NOT_FOUND);
    assert_string_equal(items[5].id, "2.50");
}

static void test_largest_batch(void **state _unused_)
{
    _cleanup_text_ struct text line = {0};

    text_append_char(&line, '[');
    for (size_t i = 0; i < RPC_BATCH_MAX; i++)
        text_printf(&line, "%s" CALL("daemon.status", "{}"), i ? "," : "");
    size_t length = line.length;
    text_append_char(&line, ']');
    assert_int_equal(parse(text_string(&line)).count, RPC_BATCH_MAX);
    line.length = length;
    text_append_string(&line, ",1]");
    assert_string_equal(parse_one(text_string(&line))->error_text,
                        "the batch has 101 requests, but at most 100 are allowed");
}

/* ---- answers, and the client's side ---- */

static void expect_reply(const struct text *line, struct rpc_reply *ret)
{
    assert_int_equal(text_error(line), 0);
    assert_null(strchr(text_string(line), '\n'));
    assert_int_equal(rpc_reply_parse(line->bytes, line->length, &arena, ret), 0);
}

static void test_answers_are_read_back(void **state _unused_)
{
    _cleanup_text_ struct text line = {0};
    struct rpc_reply reply;

    rpc_write_result(&line, "7", "{\"a\": [1,\"]\"]}", 14);
    assert_string_equal(text_string(&line),
                        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\": [1,\"]\"]}}");
    expect_reply(&line, &reply);
    assert_int_equal(reply.id, 7);
    assert_int_equal(reply.error, 0);
    assert_false(reply.is_event);
    assert_int_equal(reply.result_length, 14);
    assert_string_equal(reply.result, "{\"a\": [1,\"]\"]}");

    text_reset(&line);
    rpc_write_error(&line, "7", RPC_JOB_NOT_FOUND, "no job \"x\"\n");
    expect_reply(&line, &reply);
    assert_int_equal(reply.error, RPC_JOB_NOT_FOUND);
    assert_string_equal(reply.message, "no job \"x\"\n");
    assert_null(reply.result);

    text_reset(&line);
    rpc_write_error(&line, "null", RPC_PARSE_ERROR, "bad");
    expect_reply(&line, &reply);
    assert_int_equal(reply.id, INT_UNKNOWN);

    text_reset(&line);
    text_append_string(&line, RPC_EVENT_PREFIX "{\"event\":\"job.started\"}" RPC_EVENT_SUFFIX);
    expect_reply(&line, &reply);
    assert_true(reply.is_event);
    assert_string_equal(reply.method, "monitor.event");
    assert_string_equal(reply.result, "{\"event\":\"job.started\"}");
}

static void test_params_of_events_are_not_checked(void **state _unused_)
{
    static const char params[] = "{\"timestamp\":\0k]}";
    _cleanup_text_ struct text line = {0};
    struct rpc_reply reply;

    text_append_string(&line, RPC_EVENT_PREFIX);
    text_append(&line, params, sizeof(params) - 1);
    text_append_string(&line, RPC_EVENT_SUFFIX);
    expect_reply(&line, &reply);
    assert_true(reply.is_event);
    assert_int_equal(reply.result_length, sizeof(params) - 1);
    assert_memory_equal(reply.result, params, sizeof(params));
}

static void test_results_of_every_kind(void **state _unused_)
{
    static const char *const results[] = {"null", "5", "-1.5", "\"x\\\"}\"", "[]", "{}", "true"};
    struct rpc_reply reply;

    for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
        _cleanup_text_ struct text line = {0};
        rpc_write_result(&line, "1", results[i], strlen(results[i]));
        expect_reply(&line, &reply);
        assert_string_equal(reply.result, results[i]);
    }
}

static void test_requests_are_read_back(void **state _unused_)
{
    _cleanup_text_ struct text line = {0};

    rpc_write_request(&line, 12, "job.list", "{\"limit\":3}");
    const struct rpc_request *request = parse_one(text_string(&line));
    assert_ptr_equal(request->method, &method_job_list);
    assert_string_equal(request->id, "12");
    assert_int_equal(rpc_int(request, "limit", 0), 3);

    text_reset(&line);
    rpc_write_request(&line, 13, "daemon.status", NULL);
    assert_ptr_equal(parse_one(text_string(&line))->method, &method_daemon_status);
}

static void test_invalid_replies(void **state _unused_)
{
    static const char *const lines[] = {
        "",
        "x",
        "[]",
        "5",
        "{}",
        "{\"jsonrpc\":\"2.0\",\"id\":1}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":1}",
        "{\"id\":1,\"result\":1}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{\"code\":1,\"message\":\"\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":5}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":\"1\",\"message\":\"\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":0,\"message\":\"\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":3000000000,\"message\":\"\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"monitor.event\",\"params\":5}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"monitor.event\",\"params\":{}}",
        "{\"jsonrpc\":\"2.0\",\"method\":5}",
    };
    struct rpc_reply reply;

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        if (rpc_reply_parse(lines[i], strlen(lines[i]), &arena, &reply) != -EBADMSG)
            fail_msg("taken: %s", lines[i]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_table_is_complete),
        TEST(test_documentation_has_every_parameter),
        TEST(test_command_lines_are_marked),
        TEST(test_command_lines_are_redacted),
        TEST(test_request_with_values),
        TEST(test_request_with_records),
        TEST(test_request_with_enumerations_and_lists),
        TEST(test_request_with_figures),
        TEST(test_reported_fields_have_parameters),
        TEST(test_many_unknown_parameters),
        TEST(test_defaults_are_those_of_the_table),
        TEST(test_params_may_be_left_out),
        TEST(test_id_is_returned_unchanged),
        TEST(test_longest_id),
        TEST(test_rejected_lines),
        TEST(test_rejected_parameters),
        TEST(test_longest_texts),
        TEST(test_messages_stay_short_and_plain),
        TEST(test_depth_and_number_of_values),
        TEST(test_batch),
        TEST(test_largest_batch),
        TEST(test_answers_are_read_back),
        TEST(test_params_of_events_are_not_checked),
        TEST(test_results_of_every_kind),
        TEST(test_requests_are_read_back),
        TEST(test_invalid_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
