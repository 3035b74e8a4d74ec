/* Parses responses and notifications, for clients. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "rpc/codec.h"
#include "rpc/span.h"

static int copy_text(const json_t *json, struct arena *arena, const char **ret)
{
    if (!json_is_string(json))
        return -EBADMSG;
    *ret = arena_copy(arena, json_string_value(json), json_string_length(json));
    return *ret ? 0 : -ENOMEM;
}

static int parse_error(const json_t *error, struct arena *arena, struct rpc_reply *reply)
{
    const json_t *code = json_object_get(error, "code");
    json_int_t value = json_integer_value(code);

    if (!json_is_integer(code) || value == 0 || value < INT_MIN || value > INT_MAX)
        return -EBADMSG;
    reply->error = (int)value;
    return copy_text(json_object_get(error, "message"), arena, &reply->message);
}

static int parse_event(const json_t *json, struct arena *arena, struct rpc_reply *reply)
{
    const json_t *params = json_object_get(json, "params");

    if (json_object_get(json, "id") || (params && !json_is_object(params)))
        return -EBADMSG;
    reply->is_event = true;
    return copy_text(json_object_get(json, "method"), arena, &reply->method);
}

static int parse_response(const json_t *json, struct arena *arena, struct rpc_reply *reply)
{
    const json_t *id = json_object_get(json, "id"), *error = json_object_get(json, "error");

    if (!error == !json_object_get(json, "result"))
        return -EBADMSG;
    if (json_is_integer(id))
        reply->id = json_integer_value(id);
    return error ? parse_error(error, arena, reply) : 0;
}

/* Recognises the events of a sonde daemon by their prefix and suffix, so that a snapshot of
 * thousands of processes is not parsed twice. The decoder of the event checks whether it is JSON.
 */
static bool parse_published_event(const char *line, size_t length, struct rpc_reply *reply)
{
    const size_t prefix = strlen(RPC_EVENT_PREFIX), suffix = strlen(RPC_EVENT_SUFFIX);

    if (length <= prefix + suffix || memcmp(line, RPC_EVENT_PREFIX, prefix) != 0 ||
        line[prefix] != '{' || memcmp(line + length - suffix, RPC_EVENT_SUFFIX, suffix) != 0)
        return false;
    reply->is_event = true;
    reply->method = "monitor.event";
    reply->result = line + prefix;
    reply->result_length = length - prefix - suffix;
    return true;
}

int rpc_reply_parse(const char *line, size_t length, struct arena *arena, struct rpc_reply *ret)
{
    struct rpc_reply reply = {.id = INT_UNKNOWN};

    if (parse_published_event(line, length, &reply)) {
        reply.result = arena_copy(arena, reply.result, reply.result_length);
        if (!reply.result)
            return -ENOMEM;
        *ret = reply;
        return 0;
    }
    json_error_t syntax = {0};

    _cleanup_(json_decrefp) json_t *json =
        json_loadb(line, length, JSON_REJECT_DUPLICATES, &syntax);
    if (!json)
        return *syntax.text ? -EBADMSG : -ENOMEM;
    const json_t *version = json_object_get(json, "jsonrpc");
    if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
        return -EBADMSG;

    int r = json_object_get(json, "method") ? parse_event(json, arena, &reply)
                                            : parse_response(json, arena, &reply);
    if (r < 0)
        return r;
    const char *name = reply.is_event ? "params" : "result";
    if (json_object_get(json, name)) {
        struct rpc_span span = rpc_span_member(json, name, (struct rpc_span){line, line + length});
        reply.result_length = (size_t)(span.end - span.at);
        reply.result = arena_copy(arena, span.at, reply.result_length);
        if (!reply.result)
            return -ENOMEM;
    }
    *ret = reply;
    return 0;
}
