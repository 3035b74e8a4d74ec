/* Queries about learned data. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/params.h"
#include "client/reader-parts.h"

/* {"job_type": …}, or {} without one. */
static void write_type_params(const char *job_type, struct text *out)
{
    struct json_writer json = {.out = out};

    json_write_begin_object(&json);
    params_write_text(&json, "job_type", job_type);
    json_write_end_object(&json);
}

static int analysis_from_daemon(struct reader *reader, const struct analysis_request *request,
                                struct arena *arena, struct analysis *ret)
{
    _cleanup_text_ struct text params = {0};
    struct json_writer json = {.out = &params};

    json_write_begin_object(&json);
    params_write_text(&json, "job_type", request->job_type);
    if (request->all_types) /* a daemon of 0.1.0 does not know it */
        params_write_true(&json, "all_types");
    json_write_end_object(&json);
    client_set_timeout(reader->client, LONG_TIMEOUT_MSEC);
    return reader_request_record(reader, "analyze.run", &params, &analysis_record, arena, ret);
}

int reader_analysis(struct reader *reader, const struct analysis_request *request,
                    struct arena *arena, struct analysis *ret, struct pattern_renewal *ret_renewal)
{
    struct analysis own;

    *ret_renewal = (struct pattern_renewal){.is_due = false};
    int r = reader_begin(reader);
    if (r == 0)
        r = analysis_from_daemon(reader, request, arena, ret);
    if (r == READ_STORE)
        return reader_end(reader, query_analysis(reader->store, request, arena, ret, ret_renewal));
    if (r == 0 && !ret->runs && !ret->patterns.count && reader_has_store(reader) &&
        query_analysis(reader->store, request, arena, &own, ret_renewal) == 0 && own.runs) {
        *ret = own;
        reader_note_fallback(reader, r);
    }
    return r;
}

/* Null means that there are no runs. */
static int estimate_from_daemon(struct reader *reader, const char *job_type, struct arena *arena,
                                struct resource_estimate *ret)
{
    _cleanup_text_ struct text params = {0};
    struct rpc_reply reply;

    write_type_params(job_type, &params);
    int r = reader_request(reader, "estimate.job", &params, arena, &reply);
    if (r)
        return r;
    if (reply.result_length == 4 && memcmp(reply.result, "null", 4) == 0)
        return -ENODATA;
    return reader_decode(reader, &resource_estimate_record, reply.result, reply.result_length,
                         arena, ret);
}

int reader_estimate(struct reader *reader, const char *job_type, struct arena *arena,
                    struct resource_estimate *ret)
{
    int r = reader_begin(reader);

    if (r == 0)
        r = estimate_from_daemon(reader, job_type, arena, ret);
    if (r == READ_STORE) {
        r = query_estimate(reader->store, job_type, geteuid(), arena, ret);
        return r == -ENODATA ? r : reader_end(reader, r);
    }
    if (r == -ENODATA && reader_has_store(reader) &&
        query_estimate(reader->store, job_type, geteuid(), arena, ret) == 0) {
        reader_note_fallback(reader, r);
        return 0;
    }
    return r;
}

static int calibration_from_daemon(struct reader *reader, const char *job_type, struct arena *arena,
                                   struct calibration_list *ret)
{
    _cleanup_text_ struct text params = {0};
    struct any_list list = {0};

    write_type_params(job_type, &params);
    client_set_timeout(reader->client, LONG_TIMEOUT_MSEC);
    int r = reader_request_list(reader, "estimate.calibration", &params, &calibration_record, arena,
                                &list);
    if (r == 0)
        *ret = (struct calibration_list){.items = list.items, .count = list.count};
    return r;
}

int reader_calibration(struct reader *reader, const char *job_type, struct arena *arena,
                       struct calibration_list *ret)
{
    struct calibration_list own = {0};

    int r = reader_begin(reader);
    if (r == 0)
        r = calibration_from_daemon(reader, job_type, arena, ret);
    if (r == READ_STORE)
        return reader_end(reader,
                          query_calibration(reader->store, job_type, INT_UNKNOWN, arena, ret));
    if (r == 0 && !ret->count && reader_has_store(reader) &&
        query_calibration(reader->store, job_type, INT_UNKNOWN, arena, &own) == 0 && own.count) {
        *ret = own;
        reader_note_fallback(reader, r);
    }
    return r;
}
