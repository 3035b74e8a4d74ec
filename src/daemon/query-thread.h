/* Asks the store, in a thread of its own, one question after the other, users in turn, so that no
 * question delays a tick. A question that takes too long is broken off. */
#pragma once

#include <sys/queue.h>
#include <uv.h>

#include "base/arena.h"
#include "daemon/connection.h"
#include "daemon/dispatch.h"
#include "model/estimate.h"
#include "store/store.h"

/* What was told before a question is asked should be in its answer; a slow disk is not waited for
 * any longer. */
#define QUERY_THREAD_WAIT_NS (200 * NS_PER_MSEC)
/* A report on a week of samples takes some milliseconds; who asks for a year's has this long. */
#define QUERY_THREAD_TIMEOUT_MSEC 10000
/* Questions of one user that wait; root and the daemon's owner are not counted. */
#define QUERY_THREAD_WAITING_PER_USER 16

struct question;

/* In the thread: fills question->answer, out of what is in the question alone. */
typedef void (*ask_fn)(struct question *question);
/* In the loop, once it is answered. */
typedef void (*answered_fn)(void *context);

struct question {
    struct peer peer;
    struct connection *connection; /* not for the thread */
    const struct rpc_request *request;
    uint64_t wait_ns; /* how long to wait for what is to be written first */
    bool is_written;  /* whether it is */
    ask_fn ask;       /* NULL: that is all */
    struct answer *answer;
    struct store_reader *reader; /* the asker's, while it is asked */
    struct store_writer *writer; /* the same; NULL: nothing is stored */
    double now;
    struct arena arena;
    struct resource_estimate estimate; /* for those who go on with it in the loop */
    bool has_estimate;
    bool is_name_taken;      /* the same */
    uint64_t start_ticks;    /* from the answer, for them too */
    int64_t min_sample_size; /* that an analysis takes */

    answered_fn on_answered;
    void *context;
    TAILQ_ENTRY(question) neighbours;
};

struct query_thread;
struct store_writer;

/* For the database at `path`, which the writer (NULL: none) writes. 0 or -ENOMEM. */
int query_thread_start(uv_loop_t *loop, struct store_writer *writer, const char *path,
                       struct query_thread **ret);
/* Breaks off what is being asked, waits for that, and answers nothing more. */
void query_thread_stop(struct query_thread *asker);

/* Whether one more question of that peer may wait. */
bool query_thread_has_room(const struct query_thread *asker, const struct peer *peer);
/* The question must stay where it is until it is answered, which is not before this returns. */
void query_thread_ask(struct query_thread *asker, struct question *question);
/* Nobody wants the answer any more: it comes soon, or before this returns. */
void query_thread_hurry(struct query_thread *asker, struct question *question);
