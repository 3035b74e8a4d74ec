/* Handlers of analyze.run and estimate.calibration. */
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/dispatch.h"
#include "daemon/periodic-analysis.h"
#include "model/record-json.h"
#include "query/query.h"

void method_analyze_run(struct daemon *daemon, struct connection *connection _unused_,
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

void method_estimate_calibration(struct daemon *daemon, struct connection *connection _unused_,
                                 const struct rpc_request *request _unused_, struct answer *answer)
{
    answer_after_query(answer, daemon->report_queries, answer_calibration);
}
