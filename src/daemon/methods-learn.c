/* analyze.run, estimate.calibration: what was learned of finished runs. */
#include "daemon/connection.h"
#include "daemon/dispatch.h"
#include "daemon/manager.h"
#include "daemon/periodic-analysis.h"
#include "model/record-json.h"
#include "query/query.h"

void method_analyze_run(struct daemon *daemon, struct connection *connection _unused_,
                        const struct rpc_request *request _unused_, struct answer *answer)
{
    answer_ask(answer, daemon->asker, periodic_analysis_ask);
    answer->min_sample_size = daemon->config->correlation.min_sample_size;
}

/* By the peer's own runs, as estimates are. */
static void ask_calibration(struct question *question)
{
    const struct field field = {.type = FIELD_RECORDS, .record = &calibration_record};
    struct calibration_list list = {0};

    int r = query_calibration(question->reader, rpc_text(question->request, "job_type"),
                              question->peer.uid, &question->arena, &list);
    if (r < 0)
        answer_fail(question->answer, RPC_INTERNAL_ERROR, "%s",
                    store_reader_error(question->reader));
    else
        field_encode(&field, &list, &question->answer->json);
}

void method_estimate_calibration(struct daemon *daemon, struct connection *connection _unused_,
                                 const struct rpc_request *request _unused_, struct answer *answer)
{
    answer_ask(answer, daemon->asker, ask_calibration);
}
