/* Handlers of analyze.run and estimate.calibration. */
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/dispatch.h"
#include "daemon/methods.h"
#include "daemon/periodic-analysis.h"
#include "model/record-json.h"
#include "query/query.h"

static void handle_analyze_run(struct daemon *daemon, struct connection *connection _unused_,
                               const struct rpc_request *request _unused_, struct answer *answer)
{
    answer_after_query(answer, daemon->report_queries, periodic_analysis_execute);
    answer->min_sample_size = daemon->config->correlation.min_sample_size;
}

/* Uses the peer's own runs, as estimates do. */
static void answer_calibration(struct query *query)
{
    const struct field field = {.type = FIELD_RECORDS, .record = &calibration_record};
    struct calibration_list list = {0};

    int r = query_calibration(query->reader, rpc_text(query->request, "job_type"), query->peer.uid,
                              &query->arena, &list);
    if (r < 0)
        answer_fail(query->answer, RPC_INTERNAL_ERROR, "%s", store_reader_error(query->reader));
    else
        field_encode(&field, &list, &query->answer->json);
}

static void handle_estimate_calibration(struct daemon *daemon,
                                        struct connection *connection _unused_,
                                        const struct rpc_request *request _unused_,
                                        struct answer *answer)
{
    answer_after_query(answer, daemon->report_queries, answer_calibration);
}

/* ---- the table entries ---- */

static const struct rpc_param calibration_params[] = {
    PARAM_JOB_TYPE("job_type", .meaning = "one job type; default: all types"),
};

const struct rpc_method method_estimate_calibration = {
    .name = "estimate.calibration",
    .summary = "Returns how often such estimates were right for the caller's own runs.",
    RPC_PARAMS(calibration_params),
    .result = "a list of Calibration, the types with the most runs first",
    .handler = handle_estimate_calibration,
};

static const struct rpc_param analyze_params[] = {
    PARAM_JOB_TYPE("job_type",
                   .meaning = "only runs of this type; the result is not stored as patterns"),
    PARAM_BOOL("all_types",
               .meaning =
                   "compare runs of different types, too, and store no patterns; by default, "
                   "each type is analyzed by itself"),
};

const struct rpc_method method_analyze_run = {
    .name = "analyze.run",
    .summary =
        "Finds resource use that correlates with failure in the runs of the last 7 days. For root "
        "and the daemon's owner it covers all runs, for others their own.",
    RPC_PARAMS(analyze_params),
    .result = "an Analysis; results over all runs are stored as patterns",
    .handler = handle_analyze_run,
};
