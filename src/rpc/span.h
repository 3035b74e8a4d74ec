/* Finds parts of JSON text that a parser has accepted, so that an id and a result are copied as
 * they were written instead of being encoded again. On invalid text the results are meaningless,
 * but stay within the text. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct rpc_span {
    const char *at;
    const char *end;
};

/* Returns the text after the opening bracket of a list or an object. */
struct rpc_span rpc_span_within(const char *json, size_t length);
/* Returns the next value of a list or an object (`has_keys`), without its key, and removes it from
 * `rest`; false if there are no more. */
bool rpc_span_next(struct rpc_span *rest, bool has_keys, struct rpc_span *ret);

/* Returns the value of the member `name` of an object that was parsed from `text`; the key may
 * contain escapes. Returns an empty span if there is none. */
struct rpc_span rpc_span_member(json_t *object, const char *name, struct rpc_span text);

/* Checks before parsing whether a text is too expensive to parse: deeper than `max_depth`, or more
 * values than `max_values`. */
enum rpc_shape {
    RPC_SHAPE_FINE,
    RPC_SHAPE_TOO_DEEP,
    RPC_SHAPE_TOO_MANY,
};

enum rpc_shape rpc_shape(const char *json, size_t length, size_t max_depth, size_t max_values);
