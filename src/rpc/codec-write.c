/* Writes requests and responses. */
#include "rpc/codec.h"

static void begin_message(struct text *out)
{
    text_append_string(out, "{\"jsonrpc\":\"2.0\",");
}

static void append_id(struct text *out, const char *id)
{
    text_append_string(out, "\"id\":");
    text_append_string(out, id ? id : "null");
}

void rpc_write_result(struct text *out, const char *id, const char *result, size_t length)
{
    begin_message(out);
    append_id(out, id);
    text_append_string(out, ",\"result\":");
    text_append(out, result, length);
    text_append_char(out, '}');
}

void rpc_write_error(struct text *out, const char *id, int code, const char *message)
{
    struct json_writer json = {.out = out};

    begin_message(out);
    append_id(out, id);
    text_append_string(out, ",\"error\":");
    json_write_begin_object(&json);
    json_write_key(&json, "code");
    json_write_int(&json, code);
    json_write_key(&json, "message");
    json_write_string(&json, message);
    json_write_end_object(&json);
    text_append_char(out, '}');
}

void rpc_write_request(struct text *out, int64_t id, const char *method, const char *params)
{
    struct json_writer json = {.out = out};

    json_write_begin_object(&json);
    json_write_key(&json, "jsonrpc");
    json_write_string(&json, "2.0");
    json_write_key(&json, "id");
    json_write_int(&json, id);
    json_write_key(&json, "method");
    json_write_string(&json, method);
    if (params) {
        json_write_key(&json, "params");
        text_append_string(out, params);
    }
    text_append_char(out, '}');
}
