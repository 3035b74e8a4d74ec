/* Pieces of JSON text as they stand, for text that a parser has accepted: an id is given back as it
 * came, a result is handed on without a copy. On other text they find nonsense, but nothing outside
 * of it. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct rpc_span {
    const char *at;
    const char *end;
};

/* What is between the brackets of a list or an object, and behind them. */
struct rpc_span rpc_span_within(const char *json, size_t length);
/* The next value in there, in an object without its key; false: there are no more. */
bool rpc_span_next(struct rpc_span *rest, bool has_keys, struct rpc_span *ret);

/* A member of an object that was parsed out of `text`: the value that stands where the parser found
 * it, however its key was escaped. Empty: there is none. */
struct rpc_span rpc_span_member(json_t *object, const char *name, struct rpc_span text);

/* What makes a text too costly to parse at all, before anything is built: deeper than `max_depth`,
 * more than `max_values`. */
enum rpc_shape {
    RPC_SHAPE_FINE,
    RPC_SHAPE_TOO_DEEP,
    RPC_SHAPE_TOO_MANY,
};

enum rpc_shape rpc_shape(const char *json, size_t length, size_t max_depth, size_t max_values);
