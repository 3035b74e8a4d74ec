#include "daemon/exchange.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "daemon/daemon-state.h"
#include "daemon/dispatch.h"
#include "daemon/methods.h"
#include "daemon/query-thread.h"
#include "daemon/server.h"

/* The limit for the answers of a batch: a line of some kilobytes must not cause gigabytes of
 * answers.
 */
#define ANSWERS_MAX_BYTES (4 * 1024 * 1024)

struct exchange {
    struct daemon *daemon;
    struct connection *connection; /* NULL: the client is gone */
    exchange_fn on_done;
    struct arena arena; /* holds the message */
    struct rpc_message message;
    size_t next; /* index of the request to handle */
    struct text out;
    struct answer answer; /* of the current request */
    bool is_submitting;   /* answer.wait() is being called */
    bool is_answered;     /* on_done was called during that */
    struct query query;
};

static void exchange_free(struct exchange *exchange)
{
    text_done(&exchange->answer.result);
    text_done(&exchange->out);
    arena_done(&exchange->query.arena);
    arena_done(&exchange->arena);
    free(exchange);
}

/* A notification gets no answer, unless it could not be parsed. */
static bool wants_answer(const struct rpc_request *request)
{
    return request->id || request->error == RPC_PARSE_ERROR ||
           request->error == RPC_INVALID_REQUEST;
}

static void append_answer(struct exchange *exchange, const struct rpc_request *request)
{
    struct answer *answer = &exchange->answer;
    struct text *out = &exchange->out;

    if (!answer->error && text_error(&answer->result) < 0)
        answer_fail(answer, RPC_INTERNAL_ERROR, "no memory left");
    if (wants_answer(request)) {
        if (exchange->message.is_batch)
            text_append_char(out, out->length ? ',' : '[');
        if (answer->error)
            rpc_write_error(out, request->id, answer->error, answer->message);
        else
            rpc_write_result(out, request->id, answer->result.bytes, answer->result.length);
    }
    text_done(&answer->result);
    *answer = (struct answer){.error = 0};
}

static void on_query_done(void *context);

/* Whether the peer may run one more query. The limit keeps one user from occupying the query thread
 * or filling the memory with unread answers. Waiting for a write is not a query. */
static bool may_query(const struct exchange *exchange)
{
    const struct peer *peer = connection_peer(exchange->connection);

    return !exchange->answer.execute || (query_thread_has_room(exchange->answer.thread, peer) &&
                                         server_has_output(exchange->daemon->server, peer));
}

/* Starts the query or the wait of the answer. Returns whether it is done already. */
static bool submit_query(struct exchange *exchange)
{
    struct answer *answer = &exchange->answer;

    if (answer->thread) {
        query_thread_submit(answer->thread, &exchange->query);
        return false;
    }
    exchange->is_answered = false;
    exchange->is_submitting = true;
    answer->wait(exchange->daemon, &exchange->query);
    exchange->is_submitting = false;
    return exchange->is_answered;
}

/* Redacts with the words in force now: an earlier request of the batch, or a reload while a query
 * was pending, may have changed them. Returns false with an error in the answer. */
static bool redact_request(struct exchange *exchange, struct rpc_request *request)
{
    if (rpc_request_redact(request, &exchange->daemon->config->redact, &exchange->arena) == 0)
        return true;
    answer_fail(&exchange->answer, RPC_INTERNAL_ERROR, "no memory left");
    return false;
}

/* Returns whether the request is answered; else a query is pending. */
static bool handle_request(struct exchange *exchange, struct rpc_request *request)
{
    struct answer *answer = &exchange->answer;

    answer->json.out = &answer->result;
    if (exchange->out.length > ANSWERS_MAX_BYTES)
        answer_fail(answer, RPC_RESOURCES_EXHAUSTED,
                    "the answers of this batch are too large together; request less at once");
    else if (redact_request(exchange, request))
        dispatch(exchange->daemon, exchange->connection, request, answer);
    if ((!answer->thread && !answer->wait) || answer->error)
        return true;
    if (!may_query(exchange)) {
        answer_fail(answer, RPC_RESOURCES_EXHAUSTED,
                    "too many queries of this user are waiting, or too many answers are unread");
        return true;
    }
    exchange->query = (struct query){.peer = *connection_peer(exchange->connection),
                                     .request = request,
                                     .execute = answer->execute,
                                     .wait_ns = answer->wait_ns,
                                     .start_ticks = answer->start_ticks,
                                     .answer = answer,
                                     .min_sample_size = answer->min_sample_size,
                                     .on_done = on_query_done,
                                     .context = exchange};
    return submit_query(exchange);
}

static void finish(struct exchange *exchange)
{
    struct text out = exchange->out;

    exchange->out = (struct text){0};
    if (out.length && exchange->message.is_batch)
        text_append_char(&out, ']');
    if (out.length)
        text_append_char(&out, '\n');
    if (exchange->connection)
        exchange->on_done(exchange->connection, &out);
    text_done(&out);
    exchange_free(exchange);
}

/* Handles requests until one is pending or all are answered. Returns whether all are. */
static bool handle_requests(struct exchange *exchange)
{
    while (exchange->connection && exchange->next < exchange->message.count) {
        struct rpc_request *request = &exchange->message.items[exchange->next];
        if (!handle_request(exchange, request))
            return false;
        exchange->next++;
        append_answer(exchange, request);
    }
    finish(exchange);
    return true;
}

static void on_query_done(void *context)
{
    struct exchange *exchange = context;
    struct answer *answer = &exchange->answer;

    if (exchange->is_submitting) {
        exchange->is_answered = true;
        return;
    }
    struct rpc_request *request = &exchange->message.items[exchange->next++];
    exchange->query.connection = exchange->connection;
    if (!answer->error && answer->then && exchange->connection && redact_request(exchange, request))
        answer->then(exchange->daemon, &exchange->query);
    append_answer(exchange, request);
    handle_requests(exchange);
}

struct exchange *exchange_start(struct daemon *daemon, struct connection *connection,
                                const char *line, size_t length, exchange_fn on_done,
                                int *ret_error)
{
    struct exchange *exchange = calloc(1, sizeof(*exchange));

    *ret_error = exchange ? 0 : -ENOMEM;
    if (!exchange)
        return NULL;
    exchange->daemon = daemon;
    exchange->connection = connection;
    exchange->on_done = on_done;
    if (rpc_message_parse(&daemon_methods, line, length, &exchange->arena, &exchange->message) <
        0) {
        exchange_free(exchange);
        *ret_error = -ENOMEM;
        return NULL;
    }
    return handle_requests(exchange) ? NULL : exchange;
}

void exchange_abandon(struct exchange *exchange)
{
    struct answer *answer = &exchange->answer;

    exchange->connection = NULL;
    if (answer->thread) {
        query_thread_cancel(answer->thread, &exchange->query);
        return;
    }
    answer->stop_waiting(exchange->daemon, &exchange->query);
    finish(exchange);
}
