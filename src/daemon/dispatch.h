/* Calls the handler of a request; the handlers of all methods. Their parameters have been checked
 * against the table of rpc/method.h. */
#pragma once

#include "base/json-writer.h"
#include "rpc/codec.h"

struct daemon;
struct query_thread;
struct connection;
struct query;

/* What a handler returns: one JSON value, an error, or a query that must run first
 * (query-thread.h). */
struct answer {
    struct text result;
    struct json_writer json; /* writes into `result` */
    int error;               /* enum rpc_error; 0: none */
    char message[512];

    /* The thread that runs the query; NULL: none. `execute` fills the answer in that thread; `then`
     * continues in the loop, unless `execute` failed. Both may be NULL. */
    struct query_thread *thread;
    void (*execute)(struct query *query);
    void (*then)(struct daemon *daemon, struct query *query);
    /* The alternative to a thread: starts to wait for something in the loop, and calls
     * query->on_done when it has happened, perhaps at once. stop_waiting cancels that. */
    void (*wait)(struct daemon *daemon, struct query *query);
    void (*stop_waiting)(struct daemon *daemon, struct query *query);
    uint64_t wait_ns;        /* how long the thread waits for pending writes first */
    uint64_t start_ticks;    /* for `then`: the start time of the process in the request */
    int64_t min_sample_size; /* for an analysis */
};

/* Runs a query before the answer is sent. */
void answer_after_query(struct answer *answer, struct query_thread *thread,
                        void (*execute)(struct query *query));
/* Delays the answer until the pending writes are on the disk, for a bounded time. */
void answer_when_written(struct answer *answer, struct query_thread *thread);
/* The same, but only while many writes are pending: throttles clients that outpace the disk. */
void answer_when_written_under_load(struct answer *answer, const struct daemon *daemon);
/* Answers with an empty object. */
void answer_empty(struct answer *answer);
/* Makes the answer an error (enum rpc_error) with a message. */
void answer_fail(struct answer *answer, int error, const char *format, ...) _printf_(3, 4);
/* Fails with the negative errno of an internal call; -ENOBUFS: too many writes are pending. */
void answer_fail_errno(struct answer *answer, int error);

typedef void (*handler_fn)(struct daemon *daemon, struct connection *connection,
                           const struct rpc_request *request, struct answer *answer);

/* Calls the handler of the request, or answers with the error that parsing found. */
void dispatch(struct daemon *daemon, struct connection *connection,
              const struct rpc_request *request, struct answer *answer);

/* The handlers, in the files methods-*.c. */
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
