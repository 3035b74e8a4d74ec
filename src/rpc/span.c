#include "rpc/span.h"

#include <string.h>

/* `at` is at the opening quote; returns the position after the closing one. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && ++at == end)
            break;
    return at < end ? at + 1 : end;
}

static bool is_separator(char byte)
{
    return byte == ',' || byte == ':' || byte == ' ' || byte == '\t' || byte == '\n' ||
           byte == '\r';
}

static bool is_opening(char byte)
{
    return byte == '[' || byte == '{';
}

static bool is_closing(char byte)
{
    return byte == ']' || byte == '}';
}

static const char *skip_separators(const char *at, const char *end)
{
    while (at < end && is_separator(*at))
        at++;
    return at;
}

/* Skips a number, true, false or null; at least one byte. */
static const char *skip_plain(const char *at, const char *end)
{
    do
        at++;
    while (at < end && *at != '"' && !is_separator(*at) && !is_opening(*at) && !is_closing(*at));
    return at;
}

static const char *skip_value(const char *at, const char *end)
{
    size_t depth = 0;

    do {
        if (*at == '"') {
            at = skip_string(at, end);
        } else if (is_opening(*at) || is_closing(*at)) {
            depth += is_opening(*at) ? 1 : (size_t)-1;
            at++;
        } else {
            at = skip_plain(at, end);
        }
    } while (depth && at < end);
    return at;
}

struct rpc_span rpc_span_within(const char *json, size_t length)
{
    const char *end = json + length;
    const char *at = skip_separators(json, end);

    return (struct rpc_span){at < end ? at + 1 : end, end};
}

bool rpc_span_next(struct rpc_span *rest, bool has_keys, struct rpc_span *ret)
{
    const char *at = skip_separators(rest->at, rest->end);

    if (has_keys && at < rest->end && *at == '"')
        at = skip_separators(skip_string(at, rest->end), rest->end);
    if (at == rest->end || is_closing(*at))
        return false;
    rest->at = skip_value(at, rest->end);
    *ret = (struct rpc_span){at, rest->at};
    return true;
}

struct rpc_span rpc_span_member(json_t *object, const char *name, struct rpc_span text)
{
    struct rpc_span rest = rpc_span_within(text.at, (size_t)(text.end - text.at)), value;

    /* jansson iterates over members in their original order. */
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
        if (rpc_span_next(&rest, true, &value) && strcmp(json_object_iter_key(at), name) == 0)
            return value;
    return (struct rpc_span){text.at, text.at};
}

enum rpc_shape rpc_shape(const char *json, size_t length, size_t max_depth, size_t max_values)
{
    const char *end = json + length;
    size_t depth = 0, values = 0;

    for (const char *at = json; at < end;) {
        if (*at == '"') {
            at = skip_string(at, end);
            continue;
        }
        if (is_opening(*at) && ++depth > max_depth)
            return RPC_SHAPE_TOO_DEEP;
        if (is_closing(*at) && depth)
            depth--;
        if ((*at == ',' || *at == ':' || is_opening(*at)) && ++values > max_values)
            return RPC_SHAPE_TOO_MANY;
        at++;
    }
    return RPC_SHAPE_FINE;
}
