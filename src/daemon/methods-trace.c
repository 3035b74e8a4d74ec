/* Handlers of strace.*. The peer's uid decides here which processes it may trace. strace runs as
 * that user, so the kernel checks its rights when it attaches. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/dispatch.h"
#include "daemon/methods.h"
#include "daemon/query-thread.h"
#include "model/record-json.h"

/* The directory, below the state directory, for full traces whose request names no file. */
#define TRACES_DIRECTORY "traces"

/* Whether the peer can name processes: the pids of another pid namespace mean nothing here. */
static bool can_name_processes(const struct connection *connection, struct answer *answer)
{
    if (connection_peer(connection)->pid)
        return true;
    answer_fail(answer, RPC_INVALID_PARAMS,
                "pid: the caller is in another pid namespace, its pids mean nothing here");
    return false;
}

/* tracing_attach() and tracing_detach() check the owner together with the identity of the process.
 */
static struct trace_request request_of(const struct query *query)
{
    const struct peer *peer = &query->peer;

    return (struct trace_request){.pid = (pid_t)rpc_int(query->request, "pid", 0),
                                  .uid = peer->sees_all ? INT_UNKNOWN : (int64_t)peer->uid};
}

static void finish(struct query *query)
{
    arena_done(&query->arena);
    query->on_done(query->context);
}

static void stop_waiting(struct daemon *daemon, struct query *query)
{
    tracing_cancel(engine_tracing(daemon->engine), query);
}

static void on_attached(void *context, const struct trace_answer *trace)
{
    struct query *query = context;
    struct json_writer *json = &query->answer->json;

    if (trace->error == -EACCES)
        answer_fail(query->answer, RPC_NOT_PERMITTED, "%s", trace->reason);
    json_write_begin_object(json);
    json_write_key(json, "attached");
    json_write_bool(json, trace->error == 0);
    json_write_key(json, "reason");
    json_write_string(json, trace->error ? trace->reason : NULL);
    json_write_key(json, "tracer_pid");
    if (trace->error)
        json_write_null(json);
    else
        json_write_int(json, trace->tracer_pid);
    json_write_key(json, "file");
    json_write_string(json, trace->error ? NULL : trace->file);
    json_write_end_object(json);
    finish(query);
}

static void attach(struct daemon *daemon, struct query *query)
{
    const struct trace_request request = request_of(query);

    tracing_attach(engine_tracing(daemon->engine), &request, on_attached, query);
}

static void handle_strace_attach(struct daemon *daemon _unused_, struct connection *connection,
                                 const struct rpc_request *request _unused_, struct answer *answer)
{
    if (!can_name_processes(connection, answer))
        return;
    answer->wait = attach;
    answer->stop_waiting = stop_waiting;
}

/* ---- a full trace ---- */

/* Chooses a file in the state directory, where only the daemon's own user can create files. */
static int choose_file(const struct daemon *daemon, pid_t pid, char *into, size_t size)
{
    const char *database = daemon->config->storage_path;
    const char *slash = strrchr(database, '/');
    int length = slash ? (int)(slash - database) : 0;

    int n = snprintf(into, size, "%.*s/" TRACES_DIRECTORY, length, database);
    if (n < 0 || (size_t)n >= size)
        return -ENAMETOOLONG;
    if (mkdir(into, 0700) < 0 && errno != EEXIST)
        return -errno;
    n = snprintf(into, size, "%.*s/" TRACES_DIRECTORY "/%d-%lld.strace", length, database, (int)pid,
                 (long long)(clock_real_ns() / NS_PER_MSEC));
    return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static void trace(struct daemon *daemon, struct query *query)
{
    struct trace_request request = request_of(query);
    const char *file = rpc_text(query->request, "file");
    char chosen[PATH_MAX];
    int r = 0;

    if (file && file[0] != '/')
        r = -EINVAL;
    else if (!file)
        r = choose_file(daemon, request.pid, chosen, sizeof(chosen));
    if (r < 0) {
        answer_fail(query->answer, RPC_INVALID_PARAMS, "file: %s",
                    r == -EINVAL ? "must be an absolute path" : strerror(-r));
        finish(query);
        return;
    }
    request.file = file ? file : chosen;
    tracing_attach(engine_tracing(daemon->engine), &request, on_attached, query);
}

static void handle_strace_trace(struct daemon *daemon, struct connection *connection,
                                const struct rpc_request *request _unused_, struct answer *answer)
{
    if (!daemon->config->strace_full_on_demand)
        answer_fail(answer, RPC_NOT_PERMITTED,
                    "full traces are not allowed here (profiler.strace_full_on_demand is false)");
    else if (can_name_processes(connection, answer)) {
        answer->wait = trace;
        answer->stop_waiting = stop_waiting;
    }
}

/* ---- strace.detach ---- */

static void write_tally(struct json_writer *json, const char *name, const struct tally_list *tally)
{
    json_write_key(json, name);
    field_encode(record_find(&process_metric_record, name), tally, json);
}

static void on_detached(void *context, const struct trace_answer *trace)
{
    struct query *query = context;
    struct json_writer *json = &query->answer->json;
    struct tally_list counts = {0}, shares = {0};
    int r = 0;

    if (trace->error) {
        json_write_null(json);
        finish(query);
        return;
    }
    if (trace->calls)
        r = syscall_profile_list(trace->calls, SYSCALL_COUNTS, &query->arena, &counts);
    if (r == 0 && trace->calls)
        r = syscall_profile_shares(trace->calls, SYSCALL_SHARE_EXACT, &query->arena, &shares);
    if (r < 0)
        answer_fail_errno(query->answer, r);
    json_write_begin_object(json);
    write_tally(json, "syscall_counts", &counts);
    write_tally(json, "syscall_time_pct", &shares);
    json_write_key(json, "file");
    json_write_string(json, trace->file);
    json_write_key(json, "reason");
    json_write_string(json, trace->reason);
    json_write_end_object(json);
    finish(query);
}

static void detach(struct daemon *daemon, struct query *query)
{
    const struct trace_request request = request_of(query);

    tracing_detach(engine_tracing(daemon->engine), &request, on_detached, query);
}

/* A process that is gone is no error here: tracing_detach() finds no tracer for it. */
static bool may_detach(const struct connection *connection, const struct rpc_request *request,
                       struct answer *answer)
{
    pid_t pid = (pid_t)rpc_int(request, "pid", 0);

    if (!can_name_processes(connection, answer))
        return false;
    if (peer_may_use(connection_peer(connection), pid))
        return true;
    answer_fail(answer, RPC_NOT_PERMITTED, "process %d belongs to another user", (int)pid);
    return false;
}

static void handle_strace_detach(struct daemon *daemon _unused_, struct connection *connection,
                                 const struct rpc_request *request, struct answer *answer)
{
    if (!may_detach(connection, request, answer))
        return;
    answer->wait = detach;
    answer->stop_waiting = stop_waiting;
}

/* ---- the table entries ---- */

#define TRACED_PID                                                                                 \
    PARAM_PID("pid", .is_required = true,                                                          \
              .meaning = "the process, which must belong to the caller's user")

#define TRACER_RESULT                                                                              \
    "{`attached`, `reason`, `tracer_pid`, `file`}. `reason` states why strace is not attached: "   \
    "strace is missing, no permission, the process is gone, or another tracer is attached to it"

static const struct rpc_param strace_params[] = {TRACED_PID};

const struct rpc_method method_strace_attach = {
    .name = "strace.attach",
    .summary =
        "Counts the system calls of a process and its descendants with `strace -c -w -f`. This "
        "slows them down a lot, and setuid programs get no more rights than their user. If the "
        "process or one of its ancestors is already traced, the request succeeds.",
    RPC_PARAMS(strace_params),
    .result = TRACER_RESULT,
    .handler = handle_strace_attach,
};

const struct rpc_method method_strace_detach = {
    .name = "strace.detach",
    .summary = "Detaches the strace that `strace.attach` or `strace.trace` attached to a process. "
               "Without it, tracing ends with the process, or with its step or run.",
    RPC_PARAMS(strace_params),
    .result = "{`syscall_counts`, `syscall_time_pct`, `file`, `reason`}: the counts, or the reason "
              "why there are none; null if no tracer was attached to exactly this process",
    .handler = handle_strace_detach,
};

static const struct rpc_param strace_trace_params[] = {
    TRACED_PID,
    PARAM_TEXT("file", RPC_PATH_MAX_BYTES,
               .meaning =
                   "output file, an absolute path. The file is created with the rights of the "
                   "process's user. Default: a file in the daemon's state directory, only for "
                   "processes of the daemon's own user"),
};

const struct rpc_method method_strace_trace = {
    .name = "strace.trace",
    .summary = "Writes every system call of a process and its descendants to a file "
               "with `strace -f -tt`, until `strace.detach`, the end of the process, or "
               "a file size of 1 GiB (`profiler.strace_full_on_demand`).",
    RPC_PARAMS(strace_trace_params),
    .result = TRACER_RESULT,
    .handler = handle_strace_trace,
};
