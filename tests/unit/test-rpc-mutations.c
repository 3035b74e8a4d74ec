/* A hundred thousand messages that are nearly right. Each becomes requests or errors, never a
 * crash. The answers of a server are compared with what JSON-RPC demands, by a second parser of the
 * same line: one answer for each request with an id, in their order, none for notifications. */
#include "unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "daemon/methods.h"
#include "rpc/codec.h"

#define MESSAGES  100000
#define MUTATIONS 6

/* ---- messages ---- */

#define RUN_ID "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"

static const char *const seeds[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"daemon.status\"}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"daemon.reload\",\"params\":{}}",
    "{\"jsonrpc\":\"2.0\",\"id\":\"a-1\",\"method\":\"job.start\",\"params\":{\"job_id\":\"build\","
    "\"job_type\":\"make test @parser\",\"command\":\"sh -c 'a\\nb'\",\"pid\":4711,"
    "\"run_id\":\"" RUN_ID "\",\"unique\":true,\"started_at\":1789000000.25}}",
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"job.finish\",\"params\":{\"job_id\":\"" RUN_ID
    "\",\"outcome\":\"failure\",\"exit_code\":2,\"cpu_exactness\":\"lower_bound\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1.50,\"method\":\"daemon.monitor.stream\",\"params\":{\"events\":"
    "[\"sheet.*\",\"job.started\",\"*\"]}}",
    "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"job.list\",\"params\":{\"limit\":10,\"since\":5}},"
    "{\"jsonrpc\":\"2.0\",\"method\":\"job.progress\",\"params\":{\"job_id\":\"a\","
    "\"current_sheet\":0}},{\"jsonrpc\":\"2.0\",\"id\":\"z\",\"method\":\"sheet.failed\","
    "\"params\":{\"job_id\":\"a\",\"sheet_num\":3,\"exit_code\":137}},7]",
    "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"events.list\",\"params\":{\"type\":\"kill\","
    "\"notable\":false,\"pid\":1}}",
};

/* Values for places where they do not belong. */
static const char *const tokens[] = {
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "true",
    "-1",
    "0",
    "1e5",
    "5.0",
    "\"id\":",
    "\"id\":null,",
    "\"\\u0000\"",
    "\\u202e",
    "\x1b",
    "\xff",
    "\xc3\xa9",
    " ",
    "[]",
    "{}",
    "\"jsonrpc\":\"2.0\",",
    "~",
    "99999999999999999999",
    "\"params\":[1],",
    "\"params\":null,",
    "\"method\":5,",
};

static uint64_t state = 0x5EED5EED5EED5EED;

static size_t random_below(size_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % limit);
}

static void replace(struct text *text, size_t at, size_t length, const char *with,
                    size_t with_length)
{
    _cleanup_text_ struct text result = {0};

    text_append(&result, text->bytes, at);
    text_append(&result, with, with_length);
    text_append(&result, text->bytes + at + length, text->length - at - length);
    assert_int_equal(text_error(&result), 0);
    struct text old = *text;
    *text = result;
    result = old;
}

static void mutate(struct text *text)
{
    size_t at = random_below(text->length + 1);
    size_t length = MIN(random_below(12), text->length - at);
    const char *token = tokens[random_below(ARRAY_SIZE(tokens))];
    char byte = (char)random_below(256);
    char piece[12];

    switch (random_below(5)) {
    case 0: replace(text, at, length, "", 0); break;
    case 1: replace(text, at, 0, token, strlen(token)); break;
    case 2: replace(text, at, length, token, strlen(token)); break;
    case 3: replace(text, at, length > 0, &byte, 1); break;
    case 4:
        memcpy(piece, text->bytes + at, length);
        replace(text, random_below(text->length + 1), 0, piece, length);
        break;
    }
}

/* ---- a server that only answers ---- */

static void answer_one(const struct rpc_request *request, struct text *out, bool *has_answer)
{
    if (!request->id)
        return;
    if (*has_answer)
        text_append_char(out, ',');
    *has_answer = true;
    if (request->error)
        rpc_write_error(out, request->id, request->error, request->error_text);
    else
        rpc_write_result(out, request->id, "{}", 2);
}

/* Empty: there is nothing to answer. */
static void answer(const struct rpc_message *message, struct text *out)
{
    bool has_answer = false;

    if (message->is_batch)
        text_append_char(out, '[');
    for (size_t i = 0; i < message->count; i++)
        answer_one(&message->items[i], out, &has_answer);
    if (message->is_batch)
        text_append_char(out, ']');
    if (!has_answer)
        text_reset(out);
}

/* ---- the expected answers ---- */

/* The id that an answer to `item` must have; NULL: there must be none. */
static json_t *expected_id(json_t *item)
{
    json_t *id = json_object_get(item, "id"), *params = json_object_get(item, "params");
    json_t *version = json_object_get(item, "jsonrpc");
    bool is_request =
        json_is_string(version) && strcmp(json_string_value(version), "2.0") == 0 &&
        json_is_string(json_object_get(item, "method")) &&
        (!params || json_is_object(params) || json_is_array(params) || json_is_null(params));

    if (!id)
        return is_request ? NULL : json_null();
    if (json_is_string(id) || json_is_number(id))
        return id;
    return json_null();
}

static void expect_answer(json_t *item, json_t *answers, size_t *position)
{
    json_t *id = expected_id(item);

    if (!id)
        return;
    json_t *given = json_array_get(answers, (*position)++);
    assert_non_null(given);
    assert_true(json_equal(json_object_get(given, "id"), id));
    assert_true(!json_object_get(given, "result") != !json_object_get(given, "error"));
}

/* The answers, as a list. */
static json_t *load_answers(const struct text *out)
{
    if (!out->length)
        return json_array();
    json_t *json = json_loadb(out->bytes, out->length, 0, NULL);
    assert_non_null(json);
    return json_is_array(json) ? json : json_pack("[o]", json);
}

static void check_answers(const char *line, size_t length, const struct text *out)
{
    _cleanup_(json_decrefp) json_t *json =
        json_loadb(line, length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    _cleanup_(json_decrefp) json_t *answers = load_answers(out);
    size_t position = 0;

    if (json_array_size(json) > 0)
        for (size_t i = 0; i < json_array_size(json); i++)
            expect_answer(json_array_get(json, i), answers, &position);
    else if (json_is_object(json))
        expect_answer(json, answers, &position);
    else
        position = 1; /* no message at all: one error with id null */
    assert_int_equal(json_array_size(answers), position);
    if (!json) {
        const json_t *error = json_object_get(json_array_get(answers, 0), "error");
        assert_int_equal(json_integer_value(json_object_get(error, "code")), RPC_PARSE_ERROR);
    }
}

static const char *word_items[] = {"token", "password"};
static const struct text_list words = {word_items, ARRAY_SIZE(word_items)};

static void check_request(const struct rpc_request *request)
{
    assert_true((request->error != 0) == !request->method);
    if (!request->error)
        return;
    assert_in_range(strlen(request->error_text), 1, 500);
    for (const char *at = request->error_text; *at;) {
        uint32_t character;
        size_t size = utf8_decode(at, strlen(at), &character);
        assert_true(size && !utf8_is_control(character));
        at += size;
    }
}

static void test_mutated_messages(void **unused _unused_)
{
    struct arena arena = {0};
    size_t taken = 0, refused = 0;

    for (size_t i = 0; i < MESSAGES; i++) {
        _cleanup_text_ struct text line = {0};
        _cleanup_text_ struct text out = {0};
        struct rpc_message message;

        text_append_string(&line, seeds[random_below(ARRAY_SIZE(seeds))]);
        for (size_t k = random_below(MUTATIONS); k > 0; k--)
            mutate(&line);
        char *exact = malloc(line.length + !line.length); /* so that reads past its end are seen */
        memcpy(exact, text_string(&line), line.length);
        assert_int_equal(rpc_message_parse(&daemon_methods, exact, line.length, &arena, &message),
                         0);
        free(exact);
        for (size_t k = 0; k < message.count; k++) {
            assert_int_equal(rpc_request_redact(&message.items[k], &words, &arena), 0);
            check_request(&message.items[k]);
            *(message.items[k].error ? &refused : &taken) += 1;
        }
        answer(&message, &out);
        check_answers(line.bytes, line.length, &out);
        arena_reset(&arena);
    }
    arena_done(&arena);
    /* They are neither all good nor all bad. */
    assert_in_range(taken, MESSAGES / 5, MESSAGES);
    assert_in_range(refused, MESSAGES / 5, 2 * MESSAGES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutated_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
