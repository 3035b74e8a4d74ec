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
    _Atomic(struct store_reader *) reader; /* NULL: not opened yet, which the thread does */
    uv_work_t work;
    uv_timer_t limit;
    struct question *asked; /* NULL: the thread has nothing to do */
    bool is_late;           /* it was broken off */
    bool is_stopping;
    uid_t last_uid; /* whose question was asked last */
    TAILQ_HEAD(, question) waiting;
};

static void ask_next(struct query_thread *asker);

/* ---- in the thread ---- */

static int open_reader(struct query_thread *asker, struct question *question)
{
    struct store_error error = {.text = ""};
    struct store_reader *reader = asker->reader;

    int r = reader ? 0 : store_reader_open(asker->path, &reader, &error);
    if (r < 0) {
        answer_fail(question->answer, RPC_INTERNAL_ERROR, "%s", error.text);
        return r;
    }
    asker->reader = question->reader = reader;
    return 0;
}

static void on_work(uv_work_t *work)
{
    struct query_thread *asker = work->data;
    struct question *question = asker->asked;

    question->is_written = asker->writer && store_writer_wait(asker->writer, question->wait_ns);
    question->now = ns_to_sec(clock_real_ns());
    question->writer = asker->writer;
    if (question->ask && open_reader(asker, question) == 0)
        question->ask(question);
}

/* ---- in the loop ---- */

/* It is never taken away while the thread works. */
static void interrupt(struct query_thread *asker)
{
    struct store_reader *reader = asker->reader;

    if (reader)
        store_reader_interrupt(reader);
}

static void finish(struct question *question)
{
    question->reader = NULL;
    arena_done(&question->arena);
    question->on_answered(question->context);
}

static void on_worked(uv_work_t *work, int status _unused_)
{
    struct query_thread *asker = work->data;
    struct question *question = TAKE_PTR(asker->asked);

    uv_timer_stop(&asker->limit);
    if (TAKE(asker->is_late, false))
        answer_fail(question->answer, RPC_RESOURCES_EXHAUSTED,
                    "the question took longer than %d s; ask for less",
                    QUERY_THREAD_TIMEOUT_MSEC / 1000);
    finish(question);
    ask_next(asker);
}

static void on_limit(uv_timer_t *timer)
{
    struct query_thread *asker = timer->data;

    asker->is_late = true;
    interrupt(asker);
}

/* Users take turns: nobody waits for more than one question of somebody who has many. NULL: nobody
 * waits. */
static struct question *choose_next(const struct query_thread *asker)
{
    struct question *question;

    TAILQ_FOREACH (question, &asker->waiting, neighbours)
        if (question->peer.uid != asker->last_uid)
            return question;
    return TAILQ_FIRST(&asker->waiting);
}

static void ask_next(struct query_thread *asker)
{
    struct question *question;

    while (!asker->asked && !asker->is_stopping && (question = choose_next(asker))) {
        TAILQ_REMOVE(&asker->waiting, question, neighbours);
        asker->asked = question;
        asker->last_uid = question->peer.uid;
        uv_timer_start(&asker->limit, on_limit, QUERY_THREAD_TIMEOUT_MSEC, 0);
        /* It only fails without a function to call. */
        uv_queue_work(asker->loop, &asker->work, on_work, on_worked);
    }
}

bool query_thread_has_room(const struct query_thread *asker, const struct peer *peer)
{
    const struct question *question;
    size_t count = 0;

    TAILQ_FOREACH (question, &asker->waiting, neighbours)
        count += question->peer.uid == peer->uid;
    return peer->sees_all || count < QUERY_THREAD_WAITING_PER_USER;
}

void query_thread_hurry(struct query_thread *asker, struct question *question)
{
    if (asker->asked == question) {
        interrupt(asker);
        return;
    }
    TAILQ_REMOVE(&asker->waiting, question, neighbours);
    finish(question);
}

void query_thread_ask(struct query_thread *asker, struct question *question)
{
    TAILQ_INSERT_TAIL(&asker->waiting, question, neighbours);
    ask_next(asker);
}

int query_thread_start(uv_loop_t *loop, struct store_writer *writer, const char *path,
                       struct query_thread **ret)
{
    struct query_thread *asker = calloc(1, sizeof(*asker));

    if (!asker || !(asker->path = strdup(path))) {
        free(asker);
        return -ENOMEM;
    }
    asker->loop = loop;
    asker->writer = writer;
    TAILQ_INIT(&asker->waiting);
    uv_timer_init(loop, &asker->limit);
    asker->limit.data = asker->work.data = asker;
    *ret = asker;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct query_thread *asker = handle->data;

    free(asker->path);
    free(asker);
}

void query_thread_stop(struct query_thread *asker)
{
    struct question *question;

    if (!asker)
        return;
    asker->is_stopping = true;
    while (asker->asked) {
        interrupt(asker);
        uv_run(asker->loop, UV_RUN_ONCE);
    }
    while ((question = TAILQ_FIRST(&asker->waiting))) {
        TAILQ_REMOVE(&asker->waiting, question, neighbours);
        answer_fail(question->answer, RPC_SHUTTING_DOWN, "the daemon is shutting down");
        finish(question);
    }
    store_reader_close(asker->reader);
    uv_close((uv_handle_t *)&asker->limit, on_closed);
}
