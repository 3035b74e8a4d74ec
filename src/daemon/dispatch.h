/* From a request to its answer: the handlers of all methods, which the table of rpc/method.h has
 * checked the parameters for. */
#pragma once

#include "base/json-writer.h"
#include "rpc/codec.h"

struct daemon;
struct query_thread;
struct connection;
struct question;

/* What a handler gives back: one JSON value, or an error; or what is to be asked of the store first
 * (asker.h). */
struct answer {
    struct text result;
    struct json_writer json; /* writes into `result` */
    int error;               /* enum rpc_error; 0: none */
    char message[512];

    /* Who is asked, or waited for; NULL: it is answered. `ask` answers, in its thread; `then` goes
     * on in the loop, if that did not fail; NULL, both: there is nothing to do. */
    struct query_thread *asker;
    void (*ask)(struct question *question);
    void (*then)(struct daemon *daemon, struct question *question);
    /* Instead: waits for something that the loop will tell of, and sees to it that the question is
     * answered then (question->on_answered), or at once. */
    void (*wait)(struct daemon *daemon, struct question *question);
    void (*stop_waiting)(struct daemon *daemon, struct question *question);
    uint64_t wait_ns;        /* for what is to be written first */
    uint64_t start_ticks;    /* for `then`: of the process that the request tells of */
    int64_t min_sample_size; /* of an analysis */
};

/* The store is to be asked before it is answered. */
void answer_ask(struct answer *answer, struct query_thread *asker,
                void (*ask)(struct question *question));
/* What was told is to be on the disk before it is answered, unless that takes too long. */
void answer_when_written(struct answer *answer, struct query_thread *asker);
/* The same, but only if much waits to be written: whoever tells faster than the disk writes waits
 * for it. */
void answer_at_pace(struct answer *answer, const struct daemon *daemon);
void answer_fail(struct answer *answer, int error, const char *format, ...) _printf_(3, 4);
/* By the negative errno of a call that failed for reasons of ours; -ENOBUFS: too much waits to be
 * stored. */
void answer_fail_errno(struct answer *answer, int error);

typedef void (*handler_fn)(struct daemon *daemon, struct connection *connection,
                           const struct rpc_request *request, struct answer *answer);

/* Finds the handler and lets it answer. */
void dispatch(struct daemon *daemon, struct connection *connection,
              const struct rpc_request *request, struct answer *answer);

/* By method, in the files methods-*.c. */
#define HANDLER(name)                                                                              \
    void name(struct daemon *daemon, struct connection *connection,                                \
              const struct rpc_request *request, struct answer *answer)
HANDLER(method_daemon_status);
HANDLER(method_daemon_top);
HANDLER(method_daemon_top_stream);
HANDLER(method_daemon_events);
HANDLER(method_daemon_monitor_stream);
HANDLER(method_daemon_reload);
HANDLER(method_job_start);
HANDLER(method_job_progress);
HANDLER(method_job_finish);
HANDLER(method_job_signal);
HANDLER(method_job_leave);
HANDLER(method_job_list);
HANDLER(method_sheet_started);
HANDLER(method_sheet_completed);
HANDLER(method_sheet_failed);
HANDLER(method_resource_context);
HANDLER(method_pressure_current);
HANDLER(method_pressure_can_start_sheet);
HANDLER(method_pressure_should_accept_job);
HANDLER(method_pressure_report_rate_limit);
HANDLER(method_estimate_job);
HANDLER(method_estimate_calibration);
HANDLER(method_analyze_run);
HANDLER(method_report_job);
HANDLER(method_report_machine);
HANDLER(method_events_list);
HANDLER(method_strace_attach);
HANDLER(method_strace_detach);
HANDLER(method_strace_trace);
