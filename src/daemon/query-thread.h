/* Runs queries of the store in a thread, one at a time, users in turn, so that no query delays a
 * tick. A query that takes too long is interrupted. */
#pragma once

#include <sys/queue.h>
#include <uv.h>

#include "base/arena.h"
#include "daemon/connection.h"
#include "daemon/dispatch.h"
#include "model/estimate.h"
#include "store/store.h"

/* A query waits this long for earlier writes, so that its answer contains them. */
#define QUERY_THREAD_WAIT_NS (200 * NS_PER_MSEC)
/* A report on a week of samples takes milliseconds; one on a year may take this long. */
#define QUERY_THREAD_TIMEOUT_MSEC 10000
/* Pending queries of one user; root and the daemon's owner are exempt. */
#define QUERY_THREAD_WAITING_PER_USER 16

struct query;

/* Runs in the thread: fills query->answer from the query alone. */
typedef void (*query_fn)(struct query *query);
/* Called in the loop when the query is done. */
typedef void (*query_done_fn)(void *context);

struct query {
    struct peer peer;
    struct connection *connection; /* for `then`; the thread must not use it */
    const struct rpc_request *request;
    uint64_t wait_ns; /* how long to wait for pending writes */
    query_fn execute; /* NULL: only wait */
    struct answer *answer;
    struct store_reader *reader; /* the thread's, while the query runs */
    struct store_writer *writer; /* NULL: nothing is stored */
    double now;
    struct arena arena;
    struct resource_estimate estimate; /* a result for `then` */
    bool has_estimate;
    bool is_name_taken;      /* a result for `then` */
    uint64_t start_ticks;    /* as in the answer, for `then` */
    int64_t min_sample_size; /* for an analysis */

    query_done_fn on_done;
    void *context;
    TAILQ_ENTRY(query) neighbours;
};

struct query_thread;
struct store_writer;

/* Queries the database at `path`, which `writer` (NULL: none) writes. Returns 0 or -ENOMEM. */
int query_thread_start(uv_loop_t *loop, struct store_writer *writer, const char *path,
                       struct query_thread **ret);
/* Interrupts the running query, waits for it, and rejects the others. */
void query_thread_stop(struct query_thread *thread);

/* Whether the peer may submit one more query. */
bool query_thread_has_room(const struct query_thread *thread, const struct peer *peer);
/* Queues the query. It must stay valid until on_done is called, which is never before this returns.
 */
void query_thread_submit(struct query_thread *thread, struct query *query);
/* The answer is not needed: on_done is called soon, perhaps before this returns. */
void query_thread_cancel(struct query_thread *thread, struct query *query);
