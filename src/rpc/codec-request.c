/* Parses a line into requests. An error of the whole line becomes one request with an error and the
 * id null; an error of a batch item belongs to that item. The line is parsed only after its depth
 * and number of values are checked. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/suggest.h"
#include "rpc/params.h"
#include "rpc/span.h"

struct parser {
    const struct rpc_methods *methods;
    struct arena *arena;
};

/* ---- errors ---- */

/* Copies the text of `problem`. Returns 0 or -ENOMEM. */
static int set_error(struct rpc_request *request, struct arena *arena, int code,
                     const struct text *problem)
{
    const char *text =
        text_error(problem) < 0 ? NULL : arena_copy(arena, text_string(problem), problem->length);

    if (!text)
        return -ENOMEM;
    request->error = code;
    request->error_text = text;
    request->method = NULL;
    return 0;
}

/* Input that is not a request gets a response even without an id. */
static int set_invalid(struct rpc_request *request, const char *text)
{
    request->error = RPC_INVALID_REQUEST;
    request->error_text = text;
    request->method = NULL;
    if (!request->id)
        request->id = "null";
    return 0;
}

/* ---- one request ---- */

static_assert(RPC_ID_MAX_BYTES == 256, "the message in parse_request() contains this number");

/* Copies the id of a request as JSON text; *ret is unchanged if there is none. Text that contains a
 * NUL is not a valid id, because the response would repeat it and JSON parsers reject it by
 * default. Returns 0, 1 (not a valid id) or -ENOMEM. */
static int parse_id(json_t *json, struct rpc_span text, struct arena *arena, const char **ret)
{
    const json_t *id = json_object_get(json, "id");

    if (!id)
        return 0;
    struct rpc_span span = rpc_span_member(json, "id", text);
    size_t length = (size_t)(span.end - span.at);
    if ((!json_is_string(id) && !json_is_number(id) && !json_is_null(id)) || length == 0 ||
        length > RPC_ID_MAX_BYTES ||
        (json_is_string(id) && strlen(json_string_value(id)) != json_string_length(id)))
        return 1;
    *ret = arena_copy(arena, span.at, length);
    return *ret ? 0 : -ENOMEM;
}

static int set_unknown_method(const struct rpc_methods *methods, const char *name,
                              struct arena *arena, struct rpc_request *request)
{
    _cleanup_text_ struct text problem = {0};
    struct suggestion nearest = {0};

    for (size_t i = 0; i < methods->count; i++)
        suggestion_consider(&nearest, name, strlen(name), methods->items[i]->name,
                            strlen(methods->items[i]->name));
    text_append_string(&problem, "there is no method '");
    text_append_visible(&problem, name, strlen(name), RPC_FOUND_COLUMNS);
    text_append_char(&problem, '\'');
    if (nearest.name)
        text_printf(&problem, "; did you mean '%s'?", nearest.name);
    return set_error(request, arena, RPC_METHOD_NOT_FOUND, &problem);
}

static int parse_params(const struct parser *parser, json_t *params, struct rpc_request *request)
{
    const struct rpc_method *method = request->method;
    _cleanup_text_ struct text problem = {0};
    int r = -EINVAL;

    if (json_array_size(params) > 0)
        text_printf(&problem, "%s: 'params' must be an object with named parameters, not a list",
                    method->name);
    else
        r = rpc_params_decode(method, json_is_object(params) ? params : NULL, parser->arena,
                              request, &problem);
    return r == -EINVAL ? set_error(request, parser->arena, RPC_INVALID_PARAMS, &problem) : r;
}

/* Returns 0 or -ENOMEM. */
static int parse_request(const struct parser *parser, json_t *json, struct rpc_span text,
                         struct rpc_request *ret)
{
    *ret = (struct rpc_request){0};
    if (!json_is_object(json))
        return set_invalid(ret, "a request is an object");

    int r = parse_id(json, text, parser->arena, &ret->id);
    if (r < 0)
        return r;
    if (r > 0)
        return set_invalid(ret,
                           "'id' must be text without NUL, a number or null, of at most 256 bytes");

    const json_t *version = json_object_get(json, "jsonrpc");
    if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
        return set_invalid(ret, "'jsonrpc' must be \"2.0\"");
    const json_t *method = json_object_get(json, "method");
    if (!json_is_string(method) || strlen(json_string_value(method)) != json_string_length(method))
        return set_invalid(ret, "'method' must be text");
    json_t *params = json_object_get(json, "params");
    if (params && !json_is_object(params) && !json_is_array(params) && !json_is_null(params))
        return set_invalid(ret, "'params' must be an object");

    ret->method = rpc_methods_find(parser->methods, json_string_value(method));
    if (!ret->method)
        return set_unknown_method(parser->methods, json_string_value(method), parser->arena, ret);
    return parse_params(parser, params, ret);
}

/* ---- one line ---- */

/* Creates a message of one empty request. */
static struct rpc_request *make_single_item(struct arena *arena, struct rpc_message *message)
{
    *message =
        (struct rpc_message){.items = arena_alloc(arena, sizeof(struct rpc_request)), .count = 1};
    if (message->items)
        *message->items = (struct rpc_request){0};
    return message->items;
}

/* Makes a message of one request, which has the error. */
static int reject_line(struct arena *arena, int code, const struct text *problem,
                       struct rpc_message *ret)
{
    struct rpc_request *request = make_single_item(arena, ret);

    if (!request)
        return -ENOMEM;
    request->id = "null";
    return set_error(request, arena, code, problem);
}

static int reject_shape(struct arena *arena, enum rpc_shape shape, struct rpc_message *ret)
{
    _cleanup_text_ struct text problem = {0};

    if (shape == RPC_SHAPE_TOO_DEEP)
        text_printf(&problem, "the request is nested deeper than %d levels", RPC_DEPTH_MAX);
    else
        text_printf(&problem, "the request has more than %d values", RPC_VALUES_MAX);
    return reject_line(arena, RPC_PARSE_ERROR, &problem, ret);
}

static int reject_syntax(struct arena *arena, const json_error_t *error, struct rpc_message *ret)
{
    _cleanup_text_ struct text problem = {0};

    /* jansson sets no message if it has no memory for its tree. If it has none for a text, it
     * reports an invalid token, which is indistinguishable from a real one. */
    if (!*error->text || json_error_code(error) == json_error_out_of_memory)
        return -ENOMEM;
    text_printf(&problem, "not valid JSON: column %d: ", error->column);
    text_append_visible(&problem, error->text, strlen(error->text), 2 * RPC_FOUND_COLUMNS);
    return reject_line(arena, RPC_PARSE_ERROR, &problem, ret);
}

static int reject_batch(struct arena *arena, size_t count, struct rpc_message *ret)
{
    _cleanup_text_ struct text problem = {0};

    if (count == 0)
        text_append_string(&problem, "the batch is empty");
    else
        text_printf(&problem, "the batch has %zu requests, but at most %d are allowed", count,
                    RPC_BATCH_MAX);
    return reject_line(arena, RPC_INVALID_REQUEST, &problem, ret);
}

static int parse_batch(const struct parser *parser, const json_t *json, const char *line,
                       size_t length, struct rpc_message *ret)
{
    struct arena *arena = parser->arena;
    size_t count = json_array_size(json);

    if (count == 0 || count > RPC_BATCH_MAX)
        return reject_batch(arena, count, ret);
    struct rpc_request *items = arena_alloc(arena, count * sizeof(*items));
    if (!items)
        return -ENOMEM;

    struct rpc_span rest = rpc_span_within(line, length);
    for (size_t i = 0; i < count; i++) {
        struct rpc_span text = {line, line};
        rpc_span_next(&rest, false, &text);
        int r = parse_request(parser, json_array_get(json, i), text, &items[i]);
        if (r < 0)
            return r;
    }
    *ret = (struct rpc_message){.is_batch = true, .items = items, .count = count};
    return 0;
}

static int parse_single(const struct parser *parser, json_t *json, const char *line, size_t length,
                        struct rpc_message *ret)
{
    struct rpc_request *request = make_single_item(parser->arena, ret);

    return request ? parse_request(parser, json, (struct rpc_span){line, line + length}, request)
                   : -ENOMEM;
}

int rpc_message_parse(const struct rpc_methods *methods, const char *line, size_t length,
                      struct arena *arena, struct rpc_message *ret)
{
    const struct parser parser = {methods, arena};
    enum rpc_shape shape = rpc_shape(line, length, RPC_DEPTH_MAX, RPC_VALUES_MAX);
    struct rpc_message message;
    json_error_t error = {0};
    int r;

    if (shape != RPC_SHAPE_FINE) {
        r = reject_shape(arena, shape, &message);
    } else {
        _cleanup_(json_decrefp) json_t *json = json_loadb(
            line, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        if (!json)
            r = reject_syntax(arena, &error, &message);
        else if (json_is_array(json))
            r = parse_batch(&parser, json, line, length, &message);
        else
            r = parse_single(&parser, json, line, length, &message);
    }
    if (r == 0)
        *ret = message;
    return r;
}
