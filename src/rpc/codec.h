/* Encodes and decodes JSON-RPC 2.0 for servers and clients; no sockets. A message is one line. */
#pragma once

#include "base/json-writer.h"
#include "rpc/method.h"

#define RPC_REQUEST_MAX_BYTES (1024 * 1024)
#define RPC_BATCH_MAX         100
#define RPC_ID_MAX_BYTES      256 /* of an id, as JSON */
/* Nesting limit of lists and objects; the deepest valid request has 4 levels. */
#define RPC_DEPTH_MAX 16
/* Limit of values in a request; a full batch has about 6,000. A parsed value needs a hundred times
 * the one or two bytes that it has on the wire. */
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

/* Splits a stream into lines, in linear time for any chunk sizes. Zero-initialised means empty. */
struct rpc_framer {
    struct text buffer;
    size_t returned;  /* bytes of the lines already returned */
    size_t complete;  /* bytes up to the end of the last complete line */
    size_t max_bytes; /* of a line; 0: RPC_REQUEST_MAX_BYTES */
    bool is_lost;     /* a line was too long */
};

/* Adds the next bytes of the stream. Returns 0, -EMSGSIZE (a line is too long) or -ENOMEM. After an
 * error, the stream cannot be continued and further calls return the same error, but
 * rpc_framer_next() still returns the complete lines. Empty lines are skipped; a carriage return
 * before the newline is not part of the line. */
int rpc_framer_feed(struct rpc_framer *framer, const char *bytes, size_t length);
/* Returns the next complete line, valid until the next call of rpc_framer_feed(); false if there is
 * none. */
bool rpc_framer_next(struct rpc_framer *framer, const char **ret_line, size_t *ret_length);
/* Returns whether there is an incomplete line. */
static inline bool rpc_framer_has_partial(const struct rpc_framer *framer)
{
    return framer->buffer.length > framer->complete;
}
void rpc_framer_done(struct rpc_framer *framer);

/* ---- requests, for servers ---- */

struct rpc_value {
    bool is_given; /* given and not null; or the value is the table's fallback */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *text;
        int enumerator;
        unsigned enumerators; /* a set of bits: 1 << enumerator */
        struct text_list texts;
        struct tally_list tally;
        void *record;            /* of the parameter's `record` */
        struct any_list records; /* items of the parameter's `record` */
    };
};

struct rpc_request {
    const char *id; /* as JSON, repeated in the response; NULL: a notification, without one */
    const struct rpc_method *method;         /* NULL: see `error` */
    struct rpc_value values[RPC_PARAMS_MAX]; /* in the order of the method's parameters */
    void *record;                            /* of the method's `record`; NULL: it has none */

    int error;              /* enum rpc_error; 0: valid */
    const char *error_text; /* names the problem and its location */
};

struct rpc_message {
    bool is_batch;
    struct rpc_request *items;
    size_t count;
};

/* Parses a line into requests of these methods. Invalid content becomes requests with errors, with
 * the id null if there is no valid id. `arena` owns texts and items. Returns 0 or -ENOMEM. */
int rpc_message_parse(const struct rpc_methods *methods, const char *line, size_t length,
                      struct arena *arena, struct rpc_message *ret);

/* Redacts the values of a request that hold command lines (model/redact.h). Replacements are placed
 * in `arena`; one that is longer than the parameter allows is cut. Call it right before the request
 * is handled: the words may have changed since it was parsed. Returns 0 or -ENOMEM. */
int rpc_request_redact(struct rpc_request *request, const struct text_list *words,
                       struct arena *arena);

/* Returns a parameter by its name; NULL if it is not given or the method does not have it. */
const struct rpc_value *rpc_value(const struct rpc_request *request, const char *name);
/* Return the value of a parameter of that type. If it is not given, they return `otherwise`, or the
 * value in the comment. */
const char *rpc_text(const struct rpc_request *request, const char *name); /* NULL */
int64_t rpc_int(const struct rpc_request *request, const char *name, int64_t otherwise);
double rpc_real(const struct rpc_request *request, const char *name, double otherwise);
bool rpc_bool(const struct rpc_request *request, const char *name, bool otherwise);
int rpc_enum(const struct rpc_request *request, const char *name, int otherwise);
unsigned rpc_enums(const struct rpc_request *request, const char *name);          /* 0 */
struct any_list rpc_records(const struct rpc_request *request, const char *name); /* empty */

/* ---- responses, without a newline ---- */

/* Appends a response; `id` and `result` are JSON, and a NULL id is written as null. */
void rpc_write_result(struct text *out, const char *id, const char *result, size_t length);
void rpc_write_error(struct text *out, const char *id, int code, const char *message);
/* Text around the JSON of an event, which makes a notification `monitor.event`. */
#define RPC_EVENT_PREFIX "{\"jsonrpc\":\"2.0\",\"method\":\"monitor.event\",\"params\":"
#define RPC_EVENT_SUFFIX "}"

/* ---- requests and responses, for clients ---- */

/* Appends a request without a newline; `params` is a JSON object, or NULL. */
void rpc_write_request(struct text *out, int64_t id, const char *method, const char *params);

struct rpc_reply {
    bool is_event;       /* a notification: `result` is its params */
    const char *method;  /* of a notification: `monitor.event` */
    int64_t id;          /* INT_UNKNOWN: null, or not an id of this client */
    int error;           /* enum rpc_error, or another nonzero code; 0: none */
    const char *message; /* of an error */
    const char *result;  /* JSON; NULL: an error, or a notification without params */
    size_t result_length;
};

/* Parses a response or a notification. `arena` owns the texts, including `result`. The params of an
 * event are not checked; their decoder does that. Returns 0, -EBADMSG (not a reply) or -ENOMEM. */
int rpc_reply_parse(const char *line, size_t length, struct arena *arena, struct rpc_reply *ret);
