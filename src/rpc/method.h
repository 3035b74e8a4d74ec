/* Describes methods: name, parameters, result and handler. The entries are beside their handlers
 * (daemon/methods.h). Parameters are checked before a handler runs; docs/RPC.md is generated from
 * the entries. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/field.h"

enum rpc_type {
    RPC_BOOL,
    RPC_INT,     /* min..max */
    RPC_REAL,    /* min..max */
    RPC_TEXT,    /* at most max bytes, not empty; valid UTF-8 without control characters */
    RPC_ENUM,    /* a name of the enumerators min..max in `names` */
    RPC_ENUMS,   /* a list of such names, not empty */
    RPC_TEXTS,   /* a list of at most max texts, each of at most RPC_TEXT_MAX_BYTES; not empty */
    RPC_TALLY,   /* {name: number >= 0}, at most max names of at most RPC_NAME_MAX_BYTES */
    RPC_RECORD,  /* an object: `record`, of at most RPC_RECORD_MAX_BYTES */
    RPC_RECORDS, /* a list of at most max of `record`, each of at most RPC_RECORD_MAX_BYTES */
};

#define RPC_TEXT_MAX_BYTES 4096
#define RPC_PARAMS_MAX     32

/* The name of a run: a job_id, optionally with `-2` and `~1` appended, or a run_id. */
#define RPC_JOB_NAME_MAX_BYTES 160
#define RPC_STATUS_MAX_BYTES   64
#define RPC_DETAILS_MAX_BYTES  500 /* of a cause, or of the details of an event */
#define RPC_PATH_MAX_BYTES     4095
#define RPC_NAME_MAX_BYTES     128 /* of a step, or of a rate limit */
#define RPC_PATTERNS_MAX       32
#define RPC_TALLY_MAX          1024
#define RPC_CHAIN_MAX          16 /* links of a failure chain */
/* As JSON: three texts of the length of a command, with every byte escaped. */
#define RPC_RECORD_MAX_BYTES (16 * 1024)
/* The largest integer that a double represents exactly (many clients have only doubles): "no
 * limit". */
#define RPC_NUMBER_MAX 9007199254740991.0
/* 64 TiB, the most memory that the kernel supports. */
#define RPC_MEMORY_MAX_MB (64.0 * 1024 * 1024)
/* Unix seconds, to the end of the year 9999. */
#define RPC_TIME_MAX 253402300799.0
/* The kernel's limit on 64-bit machines. */
#define RPC_PID_MAX 4194304

struct rpc_param {
    const char *name;
    enum rpc_type type;
    bool is_required;
    double min, max;
    const char *const *names; /* by enumerator */
    const struct record *record;
    const char *meaning;

    bool min_excluded; /* of a number: must be greater than min */
    double fallback;   /* of a number: default value; 0: none */
    /* Of a text: control characters are allowed, as in command lines from /proc. They are escaped
     * on output. */
    bool allows_controls;
    /* Of a text: a command line, or a text that may contain one; see rpc_request_redact(). The
     * fields of a record have the same mark. */
    bool holds_command;
    /* Of a text: an additional check, or NULL. It returns 0, or -EINVAL with the reason. */
    int (*check)(const char *text, const char **ret_reason);
};

struct daemon;
struct connection;
struct rpc_request;
struct answer;

typedef void (*rpc_handler_fn)(struct daemon *daemon, struct connection *connection,
                               const struct rpc_request *request, struct answer *answer);

struct rpc_method {
    const char *name;
    const char *summary;
    const struct rpc_param *params;
    size_t param_count;
    /* The fields of this record that have `is_reported` are parameters as well; NULL: none. */
    const struct record *record;
    const struct rpc_alias *aliases; /* further names of these fields; NULL: none */
    const char *result;              /* description of the result */
    rpc_handler_fn handler;
};

/* A parameter that sets a field of the method's record under an older name. Consecutive entries of
 * one name set several fields. */
struct rpc_alias {
    const char *name;  /* NULL ends the list */
    const char *outer; /* the field is in this inner record; NULL: in the record itself */
    const char *field;
};

struct rpc_methods {
    const struct rpc_method *const *items;
    size_t count;
};

/* Returns the method of that name, or NULL. */
const struct rpc_method *rpc_methods_find(const struct rpc_methods *methods, const char *name);

/* Finds the field that an alias sets, and its offset in the record. */
const struct field *rpc_alias_field(const struct rpc_alias *alias, const struct record *record,
                                    size_t *ret_offset);

/* Makes the parameter that sets a field of a record: the limits follow from type and unit. */
struct rpc_param rpc_param_of_field(const struct field *field);

/* Appends the allowed values: "a whole number from 1 to 200". */
struct text;
void rpc_param_describe(const struct rpc_param *param, struct text *out);

/* Appends the chapter of docs/RPC.md that lists the methods. */
void rpc_methods_markdown(const struct rpc_methods *methods, struct text *out);

/* ---- for the entries ---- */

/* Checks a text: a UUID in lower case. Only lower case, so that an id has one spelling. */
int rpc_check_uuid(const char *text, const char **ret_reason);

#define RPC_PARAMS(list) .params = (list), .param_count = sizeof(list) / sizeof((list)[0])

#define PARAM_BOOL(param, ...)                                                                     \
    {                                                                                              \
        .name = (param), .type = RPC_BOOL, __VA_ARGS__                                             \
    }
#define PARAM_INT(param, from, to, ...)                                                            \
    {                                                                                              \
        .name = (param), .type = RPC_INT, .min = (from), .max = (to), __VA_ARGS__                  \
    }
#define PARAM_REAL(param, from, to, ...)                                                           \
    {                                                                                              \
        .name = (param), .type = RPC_REAL, .min = (from), .max = (to), __VA_ARGS__                 \
    }
#define PARAM_TEXT(param, bytes, ...)                                                              \
    {                                                                                              \
        .name = (param), .type = RPC_TEXT, .max = (bytes), __VA_ARGS__                             \
    }
#define PARAM_TEXTS(param, limit, ...)                                                             \
    {                                                                                              \
        .name = (param), .type = RPC_TEXTS, .max = (limit), __VA_ARGS__                            \
    }
#define PARAM_ENUM(param, all, first, last, ...)                                                   \
    {                                                                                              \
        .name = (param), .type = RPC_ENUM, .names = (all), .min = (first), .max = (last),          \
        __VA_ARGS__                                                                                \
    }
#define PARAM_ENUMS(param, all, first, last, ...)                                                  \
    {                                                                                              \
        .name = (param), .type = RPC_ENUMS, .names = (all), .min = (first), .max = (last),         \
        __VA_ARGS__                                                                                \
    }
#define PARAM_RECORDS(param, limit, of, ...)                                                       \
    {                                                                                              \
        .name = (param), .type = RPC_RECORDS, .max = (limit), .record = (of), __VA_ARGS__          \
    }
#define PARAM_COUNT(param, ...) PARAM_INT(param, 0, RPC_NUMBER_MAX, __VA_ARGS__)
#define PARAM_TIME(param, ...)  PARAM_REAL(param, 0, RPC_TIME_MAX, __VA_ARGS__)
#define PARAM_PID(param, ...)   PARAM_INT(param, 1, RPC_PID_MAX, __VA_ARGS__)
#define PARAM_UUID(param, ...)                                                                     \
    PARAM_TEXT(param, UUID_TEXT_SIZE - 1, .check = rpc_check_uuid, __VA_ARGS__)
#define PARAM_JOB_TYPE(param, ...)                                                                 \
    PARAM_TEXT(param, JOB_ID_MAX_BYTES, .check = job_id_check, .holds_command = true, __VA_ARGS__)
#define PARAM_RUN(param, ...) PARAM_TEXT(param, RPC_JOB_NAME_MAX_BYTES, __VA_ARGS__)
#define PARAM_SINCE(...)      PARAM_TIME("since", __VA_ARGS__)
#define PARAM_UNTIL(...)      PARAM_TIME("until", __VA_ARGS__)
#define PARAM_LIMIT(to, otherwise)                                                                 \
    PARAM_INT("limit", 1, to, .fallback = (otherwise),                                             \
              .meaning = "the largest number of results; the latest ones are returned")
