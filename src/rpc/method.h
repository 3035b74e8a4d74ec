/* The method table: the daemon's methods with their parameters and results. Parameters are checked
 * against it before a handler runs; docs/RPC.md is generated from it. */
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
    RPC_WORD,    /* one of `words` */
    RPC_TEXTS,   /* a list of at most max texts, each of at most RPC_TEXT_MAX_BYTES; not empty */
    RPC_TALLY,   /* {name: number >= 0}, at most max names of at most RPC_NAME_MAX_BYTES */
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
    const char *const *words; /* NULL-terminated; the index is the value */
    const struct record *record;
    const char *meaning;

    bool min_excluded; /* of a number: must be greater than min */
    double fallback;   /* of a number: default value; 0: none */
    /* Of a text: control characters are allowed, as in command lines from /proc. They are escaped
     * on output. */
    bool allows_controls;
    /* Of a text: an additional check, or NULL. It returns 0, or -EINVAL with the reason. */
    int (*check)(const char *text, const char **ret_reason);
};

enum rpc_method_id {
    RPC_DAEMON_STATUS,
    RPC_DAEMON_TOP,
    RPC_DAEMON_TOP_STREAM,
    RPC_DAEMON_EVENTS,
    RPC_DAEMON_MONITOR_STREAM,
    RPC_DAEMON_RELOAD,
    RPC_JOB_START,
    RPC_JOB_PROGRESS,
    RPC_JOB_FINISH,
    RPC_JOB_SIGNAL,
    RPC_JOB_LEAVE,
    RPC_JOB_LIST,
    RPC_SHEET_STARTED,
    RPC_SHEET_COMPLETED,
    RPC_SHEET_FAILED,
    RPC_RESOURCE_CONTEXT,
    RPC_PRESSURE_CURRENT,
    RPC_PRESSURE_CAN_START_SHEET,
    RPC_PRESSURE_SHOULD_ACCEPT_JOB,
    RPC_PRESSURE_REPORT_RATE_LIMIT,
    RPC_ESTIMATE_JOB,
    RPC_ESTIMATE_CALIBRATION,
    RPC_ANALYZE_RUN,
    RPC_REPORT_JOB,
    RPC_REPORT_MACHINE,
    RPC_EVENTS_LIST,
    RPC_STRACE_ATTACH,
    RPC_STRACE_DETACH,
    RPC_STRACE_TRACE,
    RPC_METHOD_COUNT,
};

/* The value of an RPC_WORD is the index of the word. Words are in the order of their enumerators,
 * which do not all begin at 0:
 *   `outcome` of job.finish and sheet.*   success, failure, unknown: OUTCOME_SUCCESS + its index
 *   `outcome` of job.list                 running, …: OUTCOME_RUNNING + its index
 *   `…_exactness`                         exact, sampled, lower_bound: EXACT + its index
 *   `syscall_source`                      sampled, bpf, strace: SYSCALLS_SAMPLED + its index
 *   `type` of events.list                 spawn, exec, …: EVENT_SPAWN + its index */

struct rpc_method {
    const char *name;
    const char *summary;
    const struct rpc_param *params;
    size_t param_count;
    const char *result; /* description of the result */
};

/* Indexed by enum rpc_method_id. */
extern const struct rpc_method rpc_methods[RPC_METHOD_COUNT];

/* Returns the enum rpc_method_id of a name, or -1. */
int rpc_method_find(const char *name);

/* Appends the allowed values: "a whole number from 1 to 200". */
struct text;
void rpc_param_describe(const struct rpc_param *param, struct text *out);

/* Appends the chapter of docs/RPC.md that lists the methods. */
void rpc_methods_markdown(struct text *out);
