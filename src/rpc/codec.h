/* JSON-RPC 2.0 in both directions, bytes to structs and back; no sockets. A message is one line. */
#pragma once

#include "base/json-writer.h"
#include "rpc/method.h"

#define RPC_REQUEST_MAX_BYTES (1024 * 1024)
#define RPC_BATCH_MAX         100
#define RPC_ID_MAX_BYTES      256 /* of an id, as JSON */
/* How deep lists and objects may lie in each other; the deepest request has 4. */
#define RPC_DEPTH_MAX 16
/* Values in a request, whatever they are: a full batch has some 6,000. Each costs a hundred times
 * its byte or two on the wire once it is parsed. */
#define RPC_VALUES_MAX 20000

enum rpc_error {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
    RPC_JOB_NOT_FOUND = -32000,
    RPC_RESOURCES_EXHAUSTED = -32001,
    RPC_JOB_ALREADY_RUNNING = -32002,
    RPC_SHUTTING_DOWN = -32003,
    RPC_NOT_PERMITTED = -32004,
};

/* ---- lines ---- */

/* Cuts a stream into lines, in linear time however it is split. Zero-initialised is empty and
 * valid. */
struct rpc_framer {
    struct text buffer;
    size_t taken;     /* of it, by lines that were given out */
    size_t whole;     /* of it, up to the end of the last whole line */
    size_t max_bytes; /* of a line; 0: RPC_REQUEST_MAX_BYTES */
    bool is_lost;     /* a line was too long */
};

/* 0, -EMSGSIZE (a line is longer than allowed) or -ENOMEM: then the stream cannot be followed any
 * further, and feeding it again gives the same; lines that were whole before are still given out.
 * Empty lines are passed over; a carriage return before the newline belongs to it. */
int rpc_framer_feed(struct rpc_framer *framer, const char *bytes, size_t length);
/* The next whole line, valid until the framer is fed again; false if there is none. */
bool rpc_framer_next(struct rpc_framer *framer, const char **ret_line, size_t *ret_length);
/* Whether there are bytes of a line that has no end yet. */
static inline bool rpc_framer_has_partial(const struct rpc_framer *framer)
{
    return framer->buffer.length > framer->whole;
}
void rpc_framer_done(struct rpc_framer *framer);

/* ---- requests, as a server sees them ---- */

struct rpc_value {
    bool is_given; /* and not null; or the table has a fallback, which is here then */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *text;
        int word;
        struct text_list texts;
        struct tally_list tally;
        struct any_list records; /* of the parameter's `record` */
    };
};

struct rpc_request {
    const char *id; /* as JSON, to be given back; NULL: a notification, which is not answered */
    int method;     /* enum rpc_method_id; -1: see `error` */
    struct rpc_value values[RPC_PARAMS_MAX]; /* as the method's table has them */

    int error;              /* enum rpc_error; 0: it is as it should be */
    const char *error_text; /* names what is wrong, and where */
};

struct rpc_message {
    bool is_batch;
    struct rpc_request *items;
    size_t count;
};

/* Never fails for what is in the line: that becomes requests with errors, which have id null if
 * none could be made out. Texts and items are placed in `arena`. 0 or -ENOMEM. */
int rpc_message_parse(const char *line, size_t length, struct arena *arena,
                      struct rpc_message *ret);

/* A parameter by its name. Not given, or none of the method's: NULL. */
const struct rpc_value *rpc_value(const struct rpc_request *request, const char *name);
/* The same, with what stands for "not given". */
const char *rpc_text(const struct rpc_request *request, const char *name); /* NULL */
int64_t rpc_int(const struct rpc_request *request, const char *name, int64_t otherwise);
double rpc_real(const struct rpc_request *request, const char *name, double otherwise);
bool rpc_bool(const struct rpc_request *request, const char *name, bool otherwise);
int rpc_word(const struct rpc_request *request, const char *name, int otherwise);
struct tally_list rpc_tally(const struct rpc_request *request, const char *name); /* null */
struct any_list rpc_records(const struct rpc_request *request, const char *name); /* empty */

/* ---- answers, without a newline ---- */

/* `result` is JSON. */
void rpc_write_result(struct text *out, const char *id, const char *result, size_t length);
void rpc_write_error(struct text *out, const char *id, int code, const char *message);
/* Around the envelope of an event, which is JSON: a notification `monitor.event`. */
#define RPC_EVENT_PREFIX "{\"jsonrpc\":\"2.0\",\"method\":\"monitor.event\",\"params\":"
#define RPC_EVENT_SUFFIX "}"

/* ---- the same as a client sees them ---- */

/* `params` is a JSON object, or NULL. Without a newline. */
void rpc_write_request(struct text *out, int64_t id, const char *method, const char *params);

struct rpc_reply {
    bool is_event;       /* a notification: `result` is its params */
    const char *method;  /* of a notification: `monitor.event` */
    int64_t id;          /* INT_UNKNOWN: null, or none of ours */
    int error;           /* enum rpc_error, or another that is not 0; 0: none */
    const char *message; /* of an error */
    const char *result;  /* JSON; NULL: an error, or a notification without params */
    size_t result_length;
};

/* Texts are placed in `arena`; `result` as it stands in the line. The params of an event may be any
 * bytes: whether they are JSON is left to their decoder. 0, -EBADMSG (it is no reply) or -ENOMEM.
 */
int rpc_reply_parse(const char *line, size_t length, struct arena *arena, struct rpc_reply *ret);
