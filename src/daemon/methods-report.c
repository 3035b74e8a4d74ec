/* Handlers of job.list, events.list and report.*: stored data that the peer may see. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/number.h"
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/dispatch.h"
#include "daemon/methods.h"
#include "daemon/query-thread.h"
#include "model/record-json.h"
#include "query/query.h"

/* Limit for N in JOB~N. */
#define BACK_MAX 10000

static void answer_query_error(const struct query *query, int error, const char *job)
{
    struct answer *answer = query->answer;

    if (error == -ENOENT && job)
        answer_fail(answer, RPC_JOB_NOT_FOUND, "no job '%s' is stored", job);
    else if (error == -ENOENT)
        answer_fail(answer, RPC_JOB_NOT_FOUND, "no jobs are stored yet");
    else
        answer_fail(answer, RPC_INTERNAL_ERROR, "%s", store_reader_error(query->reader));
}

/* The user whose data the peer may see; INT_UNKNOWN: of all users. */
static int64_t seen_uid(const struct query *query)
{
    return query->peer.sees_all ? INT_UNKNOWN : (int64_t)query->peer.uid;
}

/* Resolves JOB, JOB~1 or the latest run (NULL) among the peer's own runs to a run_id. A run_id
 * stays as it is. Returns 0, -ENOENT or another negative errno. */
static int find_own(struct query *query, const char **name)
{
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list own = {0};
    const char *tilde = *name ? strchr(*name, '~') : NULL;
    int64_t back = 0;

    if (tilde && (number_parse_int(tilde + 1, &back) < 0 || back < 0 || back > BACK_MAX))
        return -ENOENT;
    if (*name) {
        filter.job_id = tilde ? arena_copy(&query->arena, *name, (size_t)(tilde - *name)) : *name;
        if (!filter.job_id)
            return -ENOMEM;
    }
    filter.uid = seen_uid(query);
    filter.limit = (size_t)back + 1;
    int r = store_read_jobs(query->reader, &filter, &query->arena, &own);
    if (r < 0)
        return r;
    if (own.count > (size_t)back)
        *name = own.items[back].run_id;
    else if (!*name || tilde || own.count)
        return -ENOENT;
    return 0;
}

/* Finds a run by name, if the peer may see it. */
static int find_visible(struct query *query, const char *name, struct job *ret)
{
    int r = query->peer.sees_all ? 0 : find_own(query, &name);

    if (r == 0)
        r = query_job(query->reader, name, query->now, &query->arena, ret);
    if (r < 0) {
        answer_query_error(query, r, name);
        return r;
    }
    if (query->peer.sees_all || ret->uid == (int64_t)query->peer.uid)
        return 0;
    answer_fail(query->answer, RPC_NOT_PERMITTED, "job '%s' belongs to another user", name);
    return -EPERM;
}

/* ---- queries, in the query thread ---- */

static void answer_jobs(struct query *query)
{
    const struct field field = {.type = FIELD_RECORDS, .record = &job_record};
    const struct rpc_request *request = query->request;
    const struct job_filter filter = {
        .since = rpc_real(request, "since", REAL_UNKNOWN),
        .until = rpc_real(request, "until", REAL_UNKNOWN),
        .outcome = rpc_enum(request, "outcome", OUTCOME_NONE),
        .job_id = rpc_text(request, "job"),
        .job_type = rpc_text(request, "type"),
        .uid = seen_uid(query),
        .limit = (size_t)rpc_int(request, "limit", 100),
    };
    struct job_list jobs = {0};

    int r = query_jobs(query->reader, &filter, query->now, &query->arena, &jobs);
    if (r < 0)
        answer_query_error(query, r, NULL);
    else
        field_encode(&field, &jobs, &query->answer->json);
}

static unsigned event_types(const struct rpc_request *request)
{
    int type = rpc_enum(request, "type", EVENT_UNKNOWN);

    return rpc_enums(request, "types") | (type == EVENT_UNKNOWN ? 0 : EVENT_TYPE_BIT(type));
}

static void answer_events(struct query *query)
{
    const struct field field = {.type = FIELD_RECORDS, .record = &process_event_record};
    const struct rpc_request *request = query->request;
    const char *job = rpc_text(request, "job");
    struct process_event_list events = {0};
    struct job found;

    if (job && find_visible(query, job, &found) < 0)
        return;
    const struct event_filter filter = {
        .since = rpc_real(request, "since", REAL_UNKNOWN),
        .until = rpc_real(request, "until", REAL_UNKNOWN),
        .run_id = job ? found.run_id : NULL,
        .pid = rpc_int(request, "pid", INT_UNKNOWN),
        .event_types = event_types(request),
        .only_notable = rpc_bool(request, "notable", false),
        .uid = job ? INT_UNKNOWN : seen_uid(query),
        .limit = (size_t)rpc_int(request, "limit", 50),
    };
    int r = query_events(query->reader, NULL, &filter, &query->arena, &events);
    if (r < 0)
        answer_query_error(query, r, NULL);
    else
        field_encode(&field, &events, &query->answer->json);
}

static void answer_job_report(struct query *query)
{
    const char *name = rpc_text(query->request, "job");
    struct job_report report;
    struct job found;

    if (find_visible(query, name, &found) < 0)
        return;
    int r = query_job_report(query->reader, found.run_id, seen_uid(query), query->now,
                             &query->arena, &report);
    if (r < 0)
        answer_query_error(query, r, name);
    else
        record_encode(&job_report_record, &report, &query->answer->json);
}

static void answer_machine_report(struct query *query)
{
    double since = rpc_real(query->request, "since", 0);
    double until = rpc_real(query->request, "until", query->now);
    struct machine_report report;

    int r = query_machine_report(query->reader, since, until, query->now, &query->arena, &report);
    if (r < 0)
        answer_query_error(query, r, NULL);
    else
        record_encode(&machine_report_record, &report, &query->answer->json);
}

/* ---- methods ---- */

static void handle_job_list(struct daemon *daemon, struct connection *connection _unused_,
                            const struct rpc_request *request _unused_, struct answer *answer)
{
    answer_after_query(answer, daemon->report_queries, answer_jobs);
}

static void handle_events_list(struct daemon *daemon, struct connection *connection _unused_,
                               const struct rpc_request *request _unused_, struct answer *answer)
{
    answer_after_query(answer, daemon->report_queries, answer_events);
}

static void handle_report_job(struct daemon *daemon, struct connection *connection _unused_,
                              const struct rpc_request *request _unused_, struct answer *answer)
{
    answer_after_query(answer, daemon->report_queries, answer_job_report);
}

/* Only for peers with full view, because the report contains the processes of all users. */
static void handle_report_machine(struct daemon *daemon, struct connection *connection,
                                  const struct rpc_request *request _unused_, struct answer *answer)
{
    if (connection_peer(connection)->sees_all)
        answer_after_query(answer, daemon->report_queries, answer_machine_report);
    else
        answer_fail(answer, RPC_NOT_PERMITTED,
                    "only root and the daemon's owner may read the machine's history");
}

/* ---- the table entries ---- */

static const struct rpc_param job_list_params[] = {
    PARAM_SINCE(.meaning = "runs that had not ended before this time"),
    PARAM_UNTIL(.meaning = "runs that started at this time or earlier"),
    PARAM_ENUM("outcome", outcome_names, OUTCOME_RUNNING, OUTCOME_UNKNOWN,
               .meaning = "runs with this outcome"),
    PARAM_RUN("job", .meaning = "the runs of one job"),
    PARAM_JOB_TYPE("type", .meaning = "the runs of one type"),
    PARAM_LIMIT(10000, 100),
};

const struct rpc_method method_job_list = {
    .name = "job.list",
    .summary = "Returns the stored runs.",
    RPC_PARAMS(job_list_params),
    .result = "a list of Job, latest first",
    .handler = handle_job_list,
};

static const struct rpc_param report_job_params[] = {
    PARAM_RUN("job", .meaning = "`JOB`, `JOB~1` (the run before the latest) or a run_id; default: "
                                "the latest run of all jobs"),
};

const struct rpc_method method_report_job = {
    .name = "report.job",
    .summary = "Returns the report of one run.",
    RPC_PARAMS(report_job_params),
    .result = "a JobReport",
    .handler = handle_report_job,
};

static const struct rpc_param report_machine_params[] = {
    PARAM_SINCE(.is_required = true, .meaning = "start of the period"),
    PARAM_UNTIL(.meaning = "end of the period; default: now"),
};

const struct rpc_method method_report_machine = {
    .name = "report.machine",
    .summary = "Returns a report of the machine over a period.",
    RPC_PARAMS(report_machine_params),
    .result = "a MachineReport",
    .handler = handle_report_machine,
};

static const struct rpc_param events_list_params[] = {
    PARAM_SINCE(.meaning = "start of the period"),
    PARAM_UNTIL(.meaning = "end of the period"),
    PARAM_RUN("job", .meaning = "only events of one run: `JOB`, `JOB~1` or a run_id"),
    PARAM_ENUM("type", event_type_names, EVENT_SPAWN, EVENT_OOM,
               .meaning = "only events of processes, of one type"),
    PARAM_ENUMS("types", event_type_names, EVENT_SPAWN, EVENT_OOM,
                .meaning =
                    "only events of processes, of these types, and of `type` if it is given"),
    PARAM_INT("pid", 0, RPC_PID_MAX,
              .meaning = "only events of one process; 0: events of steps without a process"),
    PARAM_BOOL("notable",
               .meaning = "only signals, kills, OOM kills and exits with a nonzero status"),
    PARAM_LIMIT(10000, 50),
};

const struct rpc_method method_events_list = {
    .name = "events.list",
    .summary = "Returns the stored events.",
    RPC_PARAMS(events_list_params),
    .result = "a list of ProcessEvent, oldest first",
    .handler = handle_events_list,
};
