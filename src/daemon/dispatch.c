#include "daemon/dispatch.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/run-link.h"
#include "daemon/daemon-state.h"
#include "daemon/query-thread.h"

/* The longest delay of an answer. `sonde run` must get the answer to job.finish before it gives up.
 */
#define WRITTEN_WAIT_NS (1500 * NS_PER_MSEC)
static_assert(WRITTEN_WAIT_NS < RUN_LINK_FINISH_MSEC * NS_PER_MSEC, "sonde run waits too briefly");

void answer_after_query(struct answer *answer, struct query_thread *thread,
                        void (*execute)(struct query *query))
{
    answer->thread = thread;
    answer->execute = execute;
    answer->wait_ns = QUERY_THREAD_WAIT_NS;
}

void answer_when_written(struct answer *answer, struct query_thread *thread)
{
    answer->thread = thread;
    answer->wait_ns = WRITTEN_WAIT_NS;
}

void answer_when_written_under_load(struct answer *answer, const struct daemon *daemon)
{
    if (daemon->writer && store_writer_load(daemon->writer) != STORE_LOAD_LIGHT)
        answer_when_written(answer, daemon->job_queries);
}

void answer_empty(struct answer *answer)
{
    json_write_begin_object(&answer->json);
    json_write_end_object(&answer->json);
}

void answer_fail(struct answer *answer, int error, const char *format, ...)
{
    va_list arguments;

    answer->error = error;
    va_start(arguments, format);
    vsnprintf(answer->message, sizeof(answer->message), format, arguments);
    va_end(arguments);
}

void answer_fail_errno(struct answer *answer, int error)
{
    if (error == -ENOBUFS)
        answer_fail(answer, RPC_RESOURCES_EXHAUSTED,
                    "too many writes are pending: the disk is full or too slow");
    else
        answer_fail(answer, RPC_INTERNAL_ERROR, "%s", strerror(-error));
}

void dispatch(struct daemon *daemon, struct connection *connection,
              const struct rpc_request *request, struct answer *answer)
{
    if (request->error)
        answer_fail(answer, request->error, "%s", request->error_text);
    else if (daemon->is_stopping)
        answer_fail(answer, RPC_SHUTTING_DOWN, "the daemon is shutting down");
    else
        request->method->handler(daemon, connection, request, answer);
}
