/* Calls the handler of a request, whose parameters have been checked; and what handlers return. */
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

/* Calls the handler of the request, or answers with the error that parsing found. */
void dispatch(struct daemon *daemon, struct connection *connection,
              const struct rpc_request *request, struct answer *answer);
