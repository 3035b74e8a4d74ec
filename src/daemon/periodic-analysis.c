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
    struct query_thread *asker;
    uint64_t every_ms;
    int64_t min_sample_size;
    struct question question;
    struct answer answer;
    bool is_asking; /* the asker has the question */
    bool is_closed; /* the timer is gone */
    uint64_t done;
    uint64_t failed;
    double last_at;
    char error[512]; /* empty: the last one did not fail */
};

/* ---- in the asker's thread ---- */

static void keep_patterns(const struct question *question, const struct pattern_renewal *renewal)
{
    if (renewal->is_due && question->writer &&
        store_writer_renew_patterns(question->writer, CORRELATION_PATTERN, &renewal->patterns) < 0)
        answer_fail(question->answer, RPC_INTERNAL_ERROR, "no memory left");
}

void periodic_analysis_ask(struct question *question)
{
    const struct rpc_request *request = question->request;
    const struct analysis_request wanted = {
        .now = question->now,
        .min_sample_size = question->min_sample_size,
        .job_type = request ? rpc_text(request, "job_type") : NULL,
        .uid = question->peer.sees_all ? INT_UNKNOWN : (int64_t)question->peer.uid,
    };
    struct pattern_renewal renewal;
    struct analysis analysis;

    int r = query_analysis(question->reader, &wanted, &question->arena, &analysis, &renewal);
    if (r == -ENOMEM) {
        answer_fail_errno(question->answer, r);
    } else if (r < 0) {
        answer_fail(question->answer, RPC_INTERNAL_ERROR, "%s",
                    store_reader_error(question->reader));
    } else {
        keep_patterns(question, &renewal);
        if (request) /* else nobody reads it */
            record_encode(&analysis_record, &analysis, &question->answer->json);
    }
}

/* ---- in the loop ---- */

static void free_if_done(struct periodic_analysis *analyst)
{
    if (!analyst->is_asking && analyst->is_closed)
        free(analyst);
}

/* Once when it begins to fail, and once when it works again. */
static void tell(struct periodic_analysis *analyst, const char *error)
{
    bool is_news = (error[0] != '\0') != (analyst->error[0] != '\0');

    if (is_news && error[0])
        log_fields(LOG_LEVEL_WARNING, "finished runs could not be analyzed; trying on", "cause",
                   error, NULL);
    else if (is_news)
        log_fields(LOG_LEVEL_INFO, "finished runs are analyzed again", NULL);
    snprintf(analyst->error, sizeof(analyst->error), "%s", error);
}

static void on_answered(void *context)
{
    struct periodic_analysis *analyst = context;
    bool has_failed = analyst->answer.error != 0;

    analyst->is_asking = false;
    if (analyst->answer.error != RPC_SHUTTING_DOWN)
        tell(analyst, has_failed ? analyst->answer.message : "");
    analyst->failed += has_failed;
    analyst->done += !has_failed;
    if (!has_failed)
        analyst->last_at = analyst->question.now;
    text_done(&analyst->answer.result);
    free_if_done(analyst);
}

/* If the last one is still not answered, this one is left out. */
static void on_due(uv_timer_t *timer)
{
    struct periodic_analysis *analyst = timer->data;

    if (analyst->is_asking)
        return;
    analyst->is_asking = true;
    analyst->answer = (struct answer){.error = 0};
    analyst->answer.json.out = &analyst->answer.result;
    analyst->question = (struct question){
        .peer = {.sees_all = true},
        .wait_ns = QUERY_THREAD_WAIT_NS,
        .ask = periodic_analysis_ask,
        .answer = &analyst->answer,
        .min_sample_size = analyst->min_sample_size,
        .on_answered = on_answered,
        .context = analyst,
    };
    query_thread_ask(analyst->asker, &analyst->question);
}

int periodic_analysis_start(uv_loop_t *loop, const struct periodic_analysis_options *options,
                            struct periodic_analysis **ret)
{
    struct periodic_analysis *analyst = calloc(1, sizeof(*analyst));

    if (!analyst)
        return -ENOMEM;
    analyst->asker = options->asker;
    analyst->last_at = REAL_UNKNOWN;
    uv_timer_init(loop, &analyst->timer);
    analyst->timer.data = analyst;
    periodic_analysis_configure(analyst, options->every_ms, options->min_sample_size);
    *ret = analyst;
    return 0;
}

void periodic_analysis_configure(struct periodic_analysis *analyst, uint64_t every_ms,
                                 int64_t min_sample_size)
{
    analyst->min_sample_size = min_sample_size;
    if (analyst->every_ms == every_ms)
        return;
    analyst->every_ms = every_ms;
    uv_timer_start(&analyst->timer, on_due, every_ms, every_ms);
}

void periodic_analysis_counts(const struct periodic_analysis *analyst,
                              struct periodic_analysis_counts *ret)
{
    *ret = (struct periodic_analysis_counts){
        .done = analyst->done,
        .failed = analyst->failed,
        .last_at = analyst->last_at,
        .last_error = analyst->error[0] ? analyst->error : NULL,
    };
}

static void on_closed(uv_handle_t *handle)
{
    struct periodic_analysis *analyst = handle->data;

    analyst->is_closed = true;
    free_if_done(analyst);
}

void periodic_analysis_close(struct periodic_analysis *analyst)
{
    if (analyst)
        uv_close((uv_handle_t *)&analyst->timer, on_closed);
}
