#include "daemon/periodic-analysis.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "model/record-json.h"
#include "query/query.h"
#include "writer/store-writer.h"

struct periodic_analysis {
    uv_timer_t timer;
    struct query_thread *thread;
    uint64_t every_ms;
    int64_t min_sample_size;
    struct query query;
    struct answer answer;
    bool is_waiting; /* for the query thread */
    bool is_closed;  /* the timer is closed */
    uint64_t done;
    uint64_t failed;
    double last_at;
    char error[512]; /* empty: the last one succeeded */
};

/* ---- in the query thread ---- */

static void store_patterns(const struct query *query, const struct pattern_renewal *renewal)
{
    if (renewal->is_due && query->writer &&
        store_writer_renew_patterns(query->writer, CORRELATION_PATTERN, &renewal->patterns) < 0)
        answer_fail(query->answer, RPC_INTERNAL_ERROR, "no memory left");
}

void periodic_analysis_execute(struct query *query)
{
    const struct rpc_request *request = query->request;
    const struct analysis_request wanted = {
        .now = query->now,
        .min_sample_size = query->min_sample_size,
        .job_type = request ? rpc_text(request, "job_type") : NULL,
        .all_types = request && rpc_bool(request, "all_types", false),
        .uid = query->peer.sees_all ? INT_UNKNOWN : (int64_t)query->peer.uid,
    };
    struct pattern_renewal renewal;
    struct analysis analysis;

    int r = query_analysis(query->reader, &wanted, &query->arena, &analysis, &renewal);
    if (r == -ENOMEM) {
        answer_fail_errno(query->answer, r);
    } else if (r < 0) {
        answer_fail(query->answer, RPC_INTERNAL_ERROR, "%s", store_reader_error(query->reader));
    } else {
        store_patterns(query, &renewal);
        if (request) /* the periodic analysis needs no answer */
            record_encode(&analysis_record, &analysis, &query->answer->json);
    }
}

/* ---- in the loop ---- */

static void free_if_done(struct periodic_analysis *analysis)
{
    if (!analysis->is_waiting && analysis->is_closed)
        free(analysis);
}

/* Logs the first failure and the recovery. */
static void log_change(struct periodic_analysis *analysis, const char *error)
{
    bool has_changed = (error[0] != '\0') != (analysis->error[0] != '\0');

    if (has_changed && error[0])
        log_fields(LOG_LEVEL_WARNING, "analysis of finished runs failed, will retry", "cause",
                   error, NULL);
    else if (has_changed)
        log_fields(LOG_LEVEL_INFO, "analysis of finished runs works again", NULL);
    snprintf(analysis->error, sizeof(analysis->error), "%s", error);
}

static void on_done(void *context)
{
    struct periodic_analysis *analysis = context;
    bool has_failed = analysis->answer.error != 0;

    analysis->is_waiting = false;
    if (analysis->answer.error != RPC_SHUTTING_DOWN)
        log_change(analysis, has_failed ? analysis->answer.message : "");
    analysis->failed += has_failed;
    analysis->done += !has_failed;
    if (!has_failed)
        analysis->last_at = analysis->query.now;
    text_done(&analysis->answer.result);
    free_if_done(analysis);
}

/* Skips this analysis if the last one is still pending. */
static void on_due(uv_timer_t *timer)
{
    struct periodic_analysis *analysis = timer->data;

    if (analysis->is_waiting)
        return;
    analysis->is_waiting = true;
    analysis->answer = (struct answer){.error = 0};
    analysis->answer.json.out = &analysis->answer.result;
    analysis->query = (struct query){
        .peer = {.sees_all = true},
        .wait_ns = QUERY_THREAD_WAIT_NS,
        .execute = periodic_analysis_execute,
        .answer = &analysis->answer,
        .min_sample_size = analysis->min_sample_size,
        .on_done = on_done,
        .context = analysis,
    };
    query_thread_submit(analysis->thread, &analysis->query);
}

int periodic_analysis_start(uv_loop_t *loop, const struct periodic_analysis_options *options,
                            struct periodic_analysis **ret)
{
    struct periodic_analysis *analysis = calloc(1, sizeof(*analysis));

    if (!analysis)
        return -ENOMEM;
    analysis->thread = options->thread;
    analysis->last_at = REAL_UNKNOWN;
    uv_timer_init(loop, &analysis->timer);
    analysis->timer.data = analysis;
    periodic_analysis_configure(analysis, options->every_ms, options->min_sample_size);
    *ret = analysis;
    return 0;
}

void periodic_analysis_configure(struct periodic_analysis *analysis, uint64_t every_ms,
                                 int64_t min_sample_size)
{
    analysis->min_sample_size = min_sample_size;
    if (analysis->every_ms == every_ms)
        return;
    analysis->every_ms = every_ms;
    uv_timer_start(&analysis->timer, on_due, every_ms, every_ms);
}

void periodic_analysis_counts(const struct periodic_analysis *analysis,
                              struct periodic_analysis_counts *ret)
{
    *ret = (struct periodic_analysis_counts){
        .done = analysis->done,
        .failed = analysis->failed,
        .last_at = analysis->last_at,
        .last_error = analysis->error[0] ? analysis->error : NULL,
    };
}

static void on_closed(uv_handle_t *handle)
{
    struct periodic_analysis *analysis = handle->data;

    analysis->is_closed = true;
    free_if_done(analysis);
}

void periodic_analysis_close(struct periodic_analysis *analysis)
{
    if (analysis)
        uv_close((uv_handle_t *)&analysis->timer, on_closed);
}
