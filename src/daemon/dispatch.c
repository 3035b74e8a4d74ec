#include "daemon/dispatch.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/run-link.h"
#include "daemon/daemon-state.h"
#include "daemon/query-thread.h"

static const handler_fn handlers[RPC_METHOD_COUNT] = {
    [RPC_DAEMON_STATUS] = method_daemon_status,
    [RPC_DAEMON_TOP] = method_daemon_top,
    [RPC_DAEMON_TOP_STREAM] = method_daemon_top_stream,
    [RPC_DAEMON_EVENTS] = method_daemon_events,
    [RPC_DAEMON_MONITOR_STREAM] = method_daemon_monitor_stream,
    [RPC_DAEMON_RELOAD] = method_daemon_reload,
    [RPC_JOB_START] = method_job_start,
    [RPC_JOB_PROGRESS] = method_job_progress,
    [RPC_JOB_FINISH] = method_job_finish,
    [RPC_JOB_SIGNAL] = method_job_signal,
    [RPC_JOB_LEAVE] = method_job_leave,
    [RPC_JOB_LIST] = method_job_list,
    [RPC_SHEET_STARTED] = method_sheet_started,
    [RPC_SHEET_COMPLETED] = method_sheet_completed,
    [RPC_SHEET_FAILED] = method_sheet_failed,
    [RPC_RESOURCE_CONTEXT] = method_resource_context,
    [RPC_PRESSURE_CURRENT] = method_pressure_current,
    [RPC_PRESSURE_CAN_START_SHEET] = method_pressure_can_start_sheet,
    [RPC_PRESSURE_SHOULD_ACCEPT_JOB] = method_pressure_should_accept_job,
    [RPC_PRESSURE_REPORT_RATE_LIMIT] = method_pressure_report_rate_limit,
    [RPC_ESTIMATE_JOB] = method_estimate_job,
    [RPC_ESTIMATE_CALIBRATION] = method_estimate_calibration,
    [RPC_ANALYZE_RUN] = method_analyze_run,
    [RPC_REPORT_JOB] = method_report_job,
    [RPC_REPORT_MACHINE] = method_report_machine,
    [RPC_EVENTS_LIST] = method_events_list,
    [RPC_STRACE_ATTACH] = method_strace_attach,
    [RPC_STRACE_DETACH] = method_strace_detach,
    [RPC_STRACE_TRACE] = method_strace_trace,
};

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
        handlers[request->method](daemon, connection, request, answer);
}
