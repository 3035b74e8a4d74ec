/* The protocol in both directions: a stream gives the same lines however it is split; each becomes
 * requests or errors that can be answered, and each answer is a valid reply. Any line may also
 * arrive as a reply. */
#include "fuzz.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "daemon/methods.h"
#include "rpc/codec.h"

/* Small, so that lines that are too long occur. */
#define LINE_MAX_BYTES 512

static void check_text(const char *text)
{
    while (*text) {
        uint32_t character;
        size_t size = utf8_decode(text, strlen(text), &character);
        assert(size && !utf8_is_control(character));
        text += size;
    }
}

static void check_values(const struct rpc_request *request)
{
    const struct rpc_method *method = request->method;

    for (size_t i = 0; i < method->param_count; i++) {
        const struct rpc_value *value = rpc_value(request, method->params[i].name);
        assert(value || !method->params[i].is_required);
        if (!value)
            continue;
        switch (method->params[i].type) {
        case RPC_TEXT: assert(strlen(value->text) <= method->params[i].max); break;
        case RPC_TEXTS: assert(value->texts.count > 0 && *value->texts.items[0]); break;
        case RPC_TALLY:
            assert(value->tally.items && value->tally.count <= RPC_TALLY_MAX);
            for (size_t j = 0; j < value->tally.count; j++)
                assert(*value->tally.items[j].name && value->tally.items[j].value >= 0);
            break;
        case RPC_RECORDS: assert((double)value->records.count <= method->params[i].max); break;
        case RPC_INT: assert((double)value->integer >= method->params[i].min); break;
        case RPC_REAL: assert(value->real <= method->params[i].max); break;
        case RPC_ENUM: assert(method->params[i].names[value->enumerator]); break;
        case RPC_ENUMS: assert(value->enumerators); break;
        case RPC_RECORD: assert(value->record); break;
        case RPC_BOOL: break;
        }
    }
}

static void check_answer(const struct rpc_request *request, struct arena *arena)
{
    _cleanup_text_ struct text out = {0};
    struct rpc_reply reply;

    if (request->error)
        rpc_write_error(&out, request->id, request->error, request->error_text);
    else
        rpc_write_result(&out, request->id, "[1]", 3);
    assert(text_error(&out) == 0 && !memchr(out.bytes, '\n', out.length));
    assert(rpc_reply_parse(out.bytes, out.length, arena, &reply) == 0);
    assert(reply.error == request->error && !reply.is_event);
    assert(request->error || strcmp(reply.result, "[1]") == 0);
}

static const char *word_items[] = {"token", "password"};
static const struct text_list words = {word_items, 2};

static void check_requests(const char *line, size_t length)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_message message;

    assert(rpc_message_parse(&daemon_methods, line, length, &arena, &message) == 0);
    assert(message.count > 0 && message.count <= RPC_BATCH_MAX);
    for (size_t i = 0; i < message.count; i++) {
        struct rpc_request *request = &message.items[i];
        assert(rpc_request_redact(request, &words, &arena) == 0);
        assert(!request->error == (request->method != NULL));
        if (request->error)
            check_text(request->error_text);
        else
            check_values(request);
        check_answer(request, &arena);
    }
}

static void check_reply(const char *line, size_t length)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;

    if (rpc_reply_parse(line, length, &arena, &reply) < 0)
        return;
    assert(reply.is_event || !reply.result == (reply.error != 0));
    if (!reply.result)
        return;
    assert(reply.result[reply.result_length] == '\0');
    json_t *json = json_loadb(reply.result, reply.result_length,
                              JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    assert(json || reply.is_event);
    json_decref(json);
}

/* Takes all complete lines, each in a buffer of its exact size. */
static void take_lines(struct rpc_framer *framer, struct text *lines, bool checks)
{
    const char *line;
    size_t length;

    while (rpc_framer_next(framer, &line, &length)) {
        assert(length > 0 && length <= LINE_MAX_BYTES && !memchr(line, '\n', length));
        text_append(lines, line, length);
        text_append_char(lines, '\n');
        if (!checks)
            continue;
        char *exact = malloc(length);
        assert(exact);
        memcpy(exact, line, length);
        check_requests(exact, length);
        check_reply(exact, length);
        free(exact);
    }
}

/* The first byte determines how the rest is split. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    _cleanup_(rpc_framer_done) struct rpc_framer whole = {.max_bytes = LINE_MAX_BYTES};
    _cleanup_(rpc_framer_done) struct rpc_framer split = {.max_bytes = LINE_MAX_BYTES};
    _cleanup_text_ struct text first = {0};
    _cleanup_text_ struct text second = {0};

    if (length < 1)
        return 0;
    const char *stream = (const char *)bytes + 1;
    size_t rest = length - 1, step = bytes[0] % 16 + 1;
    int r = rpc_framer_feed(&whole, stream, rest), split_r = 0;

    take_lines(&whole, &first, true);
    for (size_t at = 0; at < rest; at += step, step = step * 7 % 31 + 1) {
        size_t piece = rest - at < step ? rest - at : step;
        split_r = rpc_framer_feed(&split, stream + at, piece);
        if (step % 3)
            take_lines(&split, &second, false);
    }
    take_lines(&split, &second, false);
    assert(r == split_r && first.length == second.length);
    assert(!first.length || memcmp(first.bytes, second.bytes, first.length) == 0);
    return 0;
}
