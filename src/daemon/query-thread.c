#include "daemon/query-thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "writer/store-writer.h"

struct query_thread {
    uv_loop_t *loop;
    struct store_writer *writer; /* NULL: nothing is stored */
    char *path;
    _Atomic(struct store_reader *) reader; /* NULL: not opened yet; the thread opens it */
    uv_work_t work;
    uv_timer_t limit;
    struct query *running; /* NULL: the thread is idle */
    bool is_late;          /* the running query exceeded its time and was interrupted */
    bool is_stopping;
    uid_t last_uid; /* the user of the last query */
    TAILQ_HEAD(, query) waiting;
};

static void start_next(struct query_thread *thread);

/* ---- in the thread ---- */

static int open_reader(struct query_thread *thread, struct query *query)
{
    struct store_error error = {.text = ""};
    struct store_reader *reader = thread->reader;

    int r = reader ? 0 : store_reader_open(thread->path, &reader, &error);
    if (r < 0) {
        answer_fail(query->answer, RPC_INTERNAL_ERROR, "%s", error.text);
        return r;
    }
    thread->reader = query->reader = reader;
    return 0;
}

static void on_work(uv_work_t *work)
{
    struct query_thread *thread = work->data;
    struct query *query = thread->running;

    if (thread->writer)
        store_writer_wait(thread->writer, query->wait_ns);
    query->now = ns_to_sec(clock_real_ns());
    query->writer = thread->writer;
    if (query->execute && open_reader(thread, query) == 0)
        query->execute(query);
}

/* ---- in the loop ---- */

/* Interrupts the running query. The reader is never closed while the thread works. */
static void interrupt(struct query_thread *thread)
{
    struct store_reader *reader = thread->reader;

    if (reader)
        store_reader_interrupt(reader);
}

static void finish(struct query *query)
{
    query->reader = NULL;
    arena_done(&query->arena);
    query->on_done(query->context);
}

static void on_worked(uv_work_t *work, int status _unused_)
{
    struct query_thread *thread = work->data;
    struct query *query = TAKE_PTR(thread->running);

    uv_timer_stop(&thread->limit);
    if (TAKE(thread->is_late, false))
        answer_fail(query->answer, RPC_RESOURCES_EXHAUSTED,
                    "the query took longer than %d s; request less data",
                    QUERY_THREAD_TIMEOUT_MSEC / 1000);
    finish(query);
    start_next(thread);
}

static void on_limit(uv_timer_t *timer)
{
    struct query_thread *thread = timer->data;

    thread->is_late = true;
    interrupt(thread);
}

/* Users take turns, so that each waits for at most one query of every other user. NULL: no query is
 * waiting. */
static struct query *choose_next(const struct query_thread *thread)
{
    struct query *query;

    TAILQ_FOREACH (query, &thread->waiting, neighbours)
        if (query->peer.uid != thread->last_uid)
            return query;
    return TAILQ_FIRST(&thread->waiting);
}

static void start_next(struct query_thread *thread)
{
    struct query *query;

    while (!thread->running && !thread->is_stopping && (query = choose_next(thread))) {
        TAILQ_REMOVE(&thread->waiting, query, neighbours);
        thread->running = query;
        thread->last_uid = query->peer.uid;
        uv_timer_start(&thread->limit, on_limit, QUERY_THREAD_TIMEOUT_MSEC, 0);
        /* Fails only without a callback. */
        uv_queue_work(thread->loop, &thread->work, on_work, on_worked);
    }
}

bool query_thread_has_room(const struct query_thread *thread, const struct peer *peer)
{
    const struct query *query;
    size_t count = 0;

    TAILQ_FOREACH (query, &thread->waiting, neighbours)
        count += query->peer.uid == peer->uid;
    return peer->sees_all || count < QUERY_THREAD_WAITING_PER_USER;
}

void query_thread_cancel(struct query_thread *thread, struct query *query)
{
    if (thread->running == query) {
        interrupt(thread);
        return;
    }
    TAILQ_REMOVE(&thread->waiting, query, neighbours);
    finish(query);
}

void query_thread_submit(struct query_thread *thread, struct query *query)
{
    TAILQ_INSERT_TAIL(&thread->waiting, query, neighbours);
    start_next(thread);
}

int query_thread_start(uv_loop_t *loop, struct store_writer *writer, const char *path,
                       struct query_thread **ret)
{
    struct query_thread *thread = calloc(1, sizeof(*thread));

    if (!thread || !(thread->path = strdup(path))) {
        free(thread);
        return -ENOMEM;
    }
    thread->loop = loop;
    thread->writer = writer;
    TAILQ_INIT(&thread->waiting);
    uv_timer_init(loop, &thread->limit);
    thread->limit.data = thread->work.data = thread;
    *ret = thread;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct query_thread *thread = handle->data;

    free(thread->path);
    free(thread);
}

void query_thread_stop(struct query_thread *thread)
{
    struct query *query;

    if (!thread)
        return;
    thread->is_stopping = true;
    while (thread->running) {
        interrupt(thread);
        uv_run(thread->loop, UV_RUN_ONCE);
    }
    while ((query = TAILQ_FIRST(&thread->waiting))) {
        TAILQ_REMOVE(&thread->waiting, query, neighbours);
        answer_fail(query->answer, RPC_SHUTTING_DOWN, "the daemon is shutting down");
        finish(query);
    }
    store_reader_close(thread->reader);
    uv_close((uv_handle_t *)&thread->limit, on_closed);
}
