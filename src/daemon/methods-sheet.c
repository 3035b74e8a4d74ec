/* Handlers of sheet.*: schedulers report the steps of their runs. */
#include <errno.h>

#include "base/cleanup.h"
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/job-request.h"
#include "daemon/methods.h"
#include "daemon/resource-context.h"

/* Reads the process that a step begins with, if the request has one. Returns false with an error in
 * the answer. */
static bool read_first_process(struct daemon *daemon, const struct connection *connection,
                               const struct rpc_request *request, const struct run *run,
                               struct run_lifecycle_step *step, struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);

    if (!job_request_check_process(daemon, connection, request, &step->process, answer))
        return false;
    engine_drain(daemon->engine);
    step->replay = job_request_replay(peer, step->process.pid);
    return job_request_may_join(daemon, peer, run, step->process.pid, answer);
}

/* Reads the process that ended with a step: the one that it began with, unless the request names
 * another, which may be gone. Returns false with an error in the answer. */
static bool read_last_process(const struct connection *connection,
                              const struct rpc_request *request, const struct run *run,
                              struct run_lifecycle_step *step, struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);
    const struct run_sheet *active = run_find_sheet(run, step->sheet_num);

    if (!active) {
        answer_fail(answer, RPC_INVALID_PARAMS, "sheet_num: step %lld is not running",
                    (long long)step->sheet_num);
        return false;
    }
    step->process.pid = (pid_t)rpc_int(request, "pid", active->pid);
    if (step->process.pid == active->pid || peer_may_use(peer, step->process.pid))
        return true;
    answer_fail(answer, RPC_NOT_PERMITTED, "process %d belongs to another user",
                (int)step->process.pid);
    return false;
}

/* A step begins (`outcome` OUTCOME_RUNNING) or ends. */
static void handle_step(struct daemon *daemon, struct connection *connection,
                        const struct rpc_request *request, int outcome, struct answer *answer)
{
    struct run *run = job_request_find_run(daemon, connection, request, answer);
    _cleanup_text_ struct text context = {0};
    struct run_lifecycle_step step = {
        .sheet_num = rpc_int(request, "sheet_num", 0),
        .name = rpc_text(request, "name"),
        .exit_code = rpc_int(request, "exit_code", INT_UNKNOWN),
        .outcome = outcome,
        .context_json = &context,
    };
    bool is_begin = outcome == OUTCOME_RUNNING;

    if (!run || !(is_begin ? read_first_process(daemon, connection, request, run, &step, answer)
                           : read_last_process(connection, request, run, &step, answer)))
        return;
    pid_t pid = step.process.pid;
    resource_context_write(daemon, connection_peer(connection)->uid, pid, pid != 0, &context);
    int r = run_lifecycle_step(daemon, run, &step);
    if (!is_begin && pid && r == 0)
        tracing_release(engine_tracing(daemon->engine), run, pid);
    if (r == -E2BIG)
        answer_fail(answer, RPC_RESOURCES_EXHAUSTED, "a job may have %d active steps at once",
                    RUN_SHEETS_MAX);
    else if (r < 0)
        answer_fail_errno(answer, r);
    text_printf(&answer->result, "{\"resource_context\":%s}", text_string(&context));
    answer_when_written_under_load(answer, daemon);
}

static void handle_sheet_started(struct daemon *daemon, struct connection *connection,
                                 const struct rpc_request *request, struct answer *answer)
{
    handle_step(daemon, connection, request, OUTCOME_RUNNING, answer);
}

static void handle_sheet_completed(struct daemon *daemon, struct connection *connection,
                                   const struct rpc_request *request, struct answer *answer)
{
    handle_step(daemon, connection, request, rpc_enum(request, "outcome", OUTCOME_SUCCESS), answer);
}

static void handle_sheet_failed(struct daemon *daemon, struct connection *connection,
                                const struct rpc_request *request, struct answer *answer)
{
    handle_step(daemon, connection, request, rpc_enum(request, "outcome", OUTCOME_FAILURE), answer);
}

/* ---- the table entries ---- */

/* Shared by the three methods, so that a scheduler can send the same parameters to each. */
#define SHEET_PARAMS                                                                               \
    PARAM_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),                   \
        PARAM_COUNT("sheet_num", .is_required = true, .meaning = "the step"),                      \
        PARAM_TEXT("name", RPC_NAME_MAX_BYTES, .holds_command = true,                              \
                   .meaning = "name of the step")

#define CONTEXT_RESULT                                                                             \
    "{`resource_context`}: the figures of the step's process as in `resource.context`, read "      \
    "before a tracer detaches"

static const struct rpc_param sheet_started_params[] = {
    SHEET_PARAMS,
    PARAM_PID("pid", .meaning =
                         "its first process, which must belong to the caller's user; with its "
                         "descendants it counts for the step since its birth, or from now "
                         "on if it was registered or in a step before"),
    PARAM_INT("exit_code", 0, 255, .meaning = "accepted and ignored"),
};

const struct rpc_method method_sheet_started = {
    .name = "sheet.started",
    .summary = "Reports the start of a step.",
    RPC_PARAMS(sheet_started_params),
    .result = CONTEXT_RESULT,
    .handler = handle_sheet_started,
};

static const struct rpc_param sheet_ended_params[] = {
    SHEET_PARAMS,
    PARAM_PID("pid", .meaning = "the process that ended with the step; default: its first process"),
    PARAM_INT("exit_code", 0, 255, .meaning = "exit status; 128 + N after signal N"),
    PARAM_ENUM("outcome", outcome_names, OUTCOME_SUCCESS, OUTCOME_UNKNOWN,
               .meaning = "the outcome, if it differs from the name of the method"),
};

const struct rpc_method method_sheet_completed = {
    .name = "sheet.completed",
    .summary = "Reports the successful end of a step.",
    RPC_PARAMS(sheet_ended_params),
    .result = CONTEXT_RESULT,
    .handler = handle_sheet_completed,
};

const struct rpc_method method_sheet_failed = {
    .name = "sheet.failed",
    .summary = "Reports the failure of a step.",
    RPC_PARAMS(sheet_ended_params),
    .result = CONTEXT_RESULT,
    .handler = handle_sheet_failed,
};
