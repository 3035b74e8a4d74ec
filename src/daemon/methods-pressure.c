/* Handlers of resource.context, pressure.* and estimate.job, which a scheduler calls before it
 * starts something. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/dispatch.h"
#include "daemon/query-thread.h"
#include "daemon/resource-context.h"
#include "model/record-json.h"
#include "query/query.h"

void method_resource_context(struct daemon *daemon, struct connection *connection,
                             const struct rpc_request *request, struct answer *answer)
{
    pid_t pid = (pid_t)rpc_int(request, "pid", 0);

    resource_context_write(daemon, connection_peer(connection)->uid, pid, pid != 0,
                           &answer->result);
}

void method_pressure_current(struct daemon *daemon, struct connection *connection,
                             const struct rpc_request *request _unused_, struct answer *answer)
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

void method_pressure_can_start_sheet(struct daemon *daemon, struct connection *connection,
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

void method_pressure_should_accept_job(struct daemon *daemon, struct connection *connection,
                                       const struct rpc_request *request, struct answer *answer)
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

void method_estimate_job(struct daemon *daemon, struct connection *connection _unused_,
                         const struct rpc_request *request _unused_, struct answer *answer)
{
    answer_after_query(answer, daemon->report_queries, answer_estimate);
}

/* The report of a user applies to that user; a report of root or the daemon's owner applies to all.
 */
void method_pressure_report_rate_limit(struct daemon *daemon, struct connection *connection,
                                       const struct rpc_request *request, struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);

    engine_note_rate_limit(daemon->engine, peer->sees_all ? INT_UNKNOWN : (int64_t)peer->uid,
                           rpc_text(request, "name"), rpc_real(request, "seconds", 60));
    answer_empty(answer);
}
