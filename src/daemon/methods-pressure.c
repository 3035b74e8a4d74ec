/* Handlers of resource.context, pressure.* and estimate.job, which a scheduler calls before it
 * starts something. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/dispatch.h"
#include "daemon/methods.h"
#include "daemon/query-thread.h"
#include "daemon/resource-context.h"
#include "model/record-json.h"
#include "query/query.h"

static void handle_resource_context(struct daemon *daemon, struct connection *connection,
                                    const struct rpc_request *request, struct answer *answer)
{
    pid_t pid = (pid_t)rpc_int(request, "pid", 0);

    resource_context_write(daemon, connection_peer(connection)->uid, pid, pid != 0,
                           &answer->result);
}

static void handle_pressure_current(struct daemon *daemon, struct connection *connection,
                                    const struct rpc_request *request _unused_,
                                    struct answer *answer)
{
    struct pressure_limits limits;
    struct pressure_input input;

    engine_pressure(daemon->engine, connection_peer(connection)->uid, &limits, &input);
    json_write_string(&answer->json, pressure_name(pressure_level(&limits, &input)));
}

static void write_admission(const struct admission *admission, struct answer *answer)
{
    struct json_writer *json = &answer->json;

    json_write_begin_object(json);
    json_write_key(json, "allowed");
    json_write_bool(json, admission->allowed);
    json_write_key(json, "delay_seconds");
    json_write_real(json, admission->delay_seconds);
    json_write_key(json, "level");
    json_write_string(json, pressure_name(admission->level));
    json_write_key(json, "reason");
    json_write_string(json, admission->reason[0] ? admission->reason : NULL);
    json_write_end_object(json);
}

static void handle_pressure_can_start_sheet(struct daemon *daemon, struct connection *connection,
                                            const struct rpc_request *request _unused_,
                                            struct answer *answer)
{
    struct pressure_limits limits;
    struct pressure_input input;
    struct admission admission;

    engine_pressure(daemon->engine, connection_peer(connection)->uid, &limits, &input);
    pressure_can_start_sheet(&limits, &input, &admission);
    write_admission(&admission, answer);
}

/* Estimates from the peer's own runs, so that no user learns about the runs of others or is delayed
 * by them. Returns 0, -ENODATA or another negative errno. */
static int find_estimate(struct query *query)
{
    const char *job_type = rpc_text(query->request, "job_type");

    int r =
        query_estimate(query->reader, job_type, query->peer.uid, &query->arena, &query->estimate);
    query->has_estimate = r == 0;
    return r;
}

static void decide(struct daemon *daemon, const struct peer *peer,
                   const struct resource_estimate *estimate, struct answer *answer)
{
    struct pressure_limits limits;
    struct pressure_input input;
    struct admission admission;

    engine_pressure(daemon->engine, peer->uid, &limits, &input);
    pressure_should_accept_job(&limits, &input, estimate, &admission);
    write_admission(&admission, answer);
}

/* An error is ignored: without an estimate, the free memory decides. */
static void read_estimate(struct query *query)
{
    find_estimate(query);
}

static void decide_by_estimate(struct daemon *daemon, struct query *query)
{
    decide(daemon, &query->peer, query->has_estimate ? &query->estimate : NULL, query->answer);
}

static void handle_pressure_should_accept_job(struct daemon *daemon, struct connection *connection,
                                              const struct rpc_request *request,
                                              struct answer *answer)
{
    if (!rpc_text(request, "job_type")) {
        decide(daemon, connection_peer(connection), NULL, answer);
        return;
    }
    answer_after_query(answer, daemon->job_queries, read_estimate);
    answer->then = decide_by_estimate;
}

static void answer_estimate(struct query *query)
{
    int r = find_estimate(query);

    if (r == -ENODATA)
        json_write_null(&query->answer->json);
    else if (r < 0)
        answer_fail(query->answer, RPC_INTERNAL_ERROR, "%s", store_reader_error(query->reader));
    else
        record_encode(&resource_estimate_record, &query->estimate, &query->answer->json);
}

static void handle_estimate_job(struct daemon *daemon, struct connection *connection _unused_,
                                const struct rpc_request *request _unused_, struct answer *answer)
{
    answer_after_query(answer, daemon->report_queries, answer_estimate);
}

/* The report of a user applies to that user; a report of root or the daemon's owner applies to all.
 */
static void handle_pressure_report_rate_limit(struct daemon *daemon, struct connection *connection,
                                              const struct rpc_request *request,
                                              struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);

    engine_note_rate_limit(daemon->engine, peer->sees_all ? INT_UNKNOWN : (int64_t)peer->uid,
                           rpc_text(request, "name"), rpc_real(request, "seconds", 60));
    answer_empty(answer);
}

/* ---- the table entries ---- */

#define ADMISSION_RESULT                                                                           \
    "{`allowed`, `delay_seconds`, `level`, `reason`}: the decision, the time to wait, the "        \
    "pressure level, and the reason for a refusal"

static const struct rpc_param context_params[] = {
    PARAM_PID("pid", .meaning = "the process; default: the machine"),
};

const struct rpc_method method_resource_context = {
    .name = "resource.context",
    .summary = "Returns the current resource use of a process in a few figures.",
    RPC_PARAMS(context_params),
    .result = "{`rss_mb`, `cpu_pct`, `syscall_hotspot` (\"write 40%\"), "
              "`anomalies_active`, `daemon_rss_mb`}, without a pid also "
              "`pressure_level`, `running_jobs`, `active_sheets`; nulls for an "
              "unknown pid; before the first snapshot only the first four",
    .handler = handle_resource_context,
};

static const struct rpc_param pressure_params[] = {
    PARAM_JOB_TYPE("job_type", .meaning = "the type whose estimate is used"),
};

const struct rpc_method method_pressure_current = {
    .name = "pressure.current",
    .summary = "Returns how much of the machine the jobs use.",
    RPC_PARAMS(pressure_params),
    .result = "the level: none, low, medium, high or critical",
    .handler = handle_pressure_current,
};

const struct rpc_method method_pressure_can_start_sheet = {
    .name = "pressure.can_start_sheet",
    .summary = "Returns whether the next step may start.",
    RPC_PARAMS(pressure_params),
    .result = ADMISSION_RESULT,
    .handler = handle_pressure_can_start_sheet,
};

const struct rpc_method method_pressure_should_accept_job = {
    .name = "pressure.should_accept_job",
    .summary = "Returns whether a new job may start.",
    RPC_PARAMS(pressure_params),
    .result = ADMISSION_RESULT,
    .handler = handle_pressure_should_accept_job,
};

static const struct rpc_param rate_limit_params[] = {
    PARAM_TEXT("name", RPC_NAME_MAX_BYTES, .is_required = true, .meaning = "name of the limit"),
    PARAM_REAL("seconds", 0, 86400, .min_excluded = true, .fallback = 60,
               .meaning = "how long the limit applies, in seconds"),
};

const struct rpc_method method_pressure_report_rate_limit = {
    .name = "pressure.report_rate_limit",
    .summary = "Reports that a service limits its clients: the pressure is high for that time.",
    RPC_PARAMS(rate_limit_params),
    .result = "{}",
    .handler = handle_pressure_report_rate_limit,
};

static const struct rpc_param estimate_params[] = {
    PARAM_JOB_TYPE("job_type", .is_required = true, .meaning = "the job type"),
};

const struct rpc_method method_estimate_job = {
    .name = "estimate.job",
    .summary = "Estimates what the next run of a type will need.",
    RPC_PARAMS(estimate_params),
    .result = "a ResourceEstimate; null without a finished run",
    .handler = handle_estimate_job,
};
