#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "detect/admission.h"
#include "learn/calibration.h"
#include "learn/correlation.h"
#include "query/query.h"

static const struct learn_constants *const constants = &learn_constants_default;

/* ---- correlations ---- */

static int add_run(void *context, const struct run_digest *run)
{
    return history_add(context, run);
}

/* Requests one run more than needed, to detect that there are more. */
static int read_history(struct store_reader *reader, const struct analysis_request *request,
                        struct history *history, struct analysis *analysis)
{
    const struct digest_filter filter = {
        .since = analysis->since,
        .job_type = request->job_type,
        .uid = request->uid,
        .with_details = true,
        .limit = constants->runs_max + 1,
    };

    int r = store_visit_digests(reader, &filter, add_run, history);
    if (r == 0)
        analysis->runs_left_out =
            history->runs.count + history->without_outcome > constants->runs_max ? INT_UNKNOWN : 0;
    return r;
}

/* ---- patterns ---- */

/* Whether the analysis had enough data to conclude that earlier patterns no longer hold. */
static bool is_conclusive(const struct analysis *analysis)
{
    return analysis->verdict != VERDICT_TOO_FEW_RUNS && analysis->verdict != VERDICT_NO_OUTCOMES;
}

static bool is_of_analysis(const struct pattern *pattern)
{
    return strcmp(pattern->pattern_type, CORRELATION_PATTERN) == 0;
}

static const struct pattern *find_pattern(const struct pattern_list *patterns,
                                          const struct pattern *wanted)
{
    for (size_t i = 0; i < patterns->count; i++)
        if (strcmp(patterns->items[i].pattern_type, wanted->pattern_type) == 0 &&
            strcmp(patterns->items[i].pattern_name, wanted->pattern_name) == 0)
            return &patterns->items[i];
    return NULL;
}

/* Lists the patterns as they are after the renewal. A pattern that was stored before keeps its
 * first time, and its occurrences are added. Stored correlations that were not found again are
 * dropped, unless `keeps_others`. Stored patterns of other types stay. */
static int merge_patterns(const struct pattern_list *stored, const struct pattern_list *found,
                          bool keeps_others, struct arena *arena, struct pattern_list *ret)
{
    struct pattern_list all = {
        .items = arena_alloc(arena, (stored->count + found->count + 1) * sizeof(*all.items))};

    if (!all.items)
        return -ENOMEM;
    for (size_t i = 0; i < found->count; i++) {
        const struct pattern *before = find_pattern(stored, &found->items[i]);
        struct pattern *pattern = &all.items[all.count++];
        *pattern = found->items[i];
        if (before && real_is_known(before->first_seen))
            pattern->first_seen = before->first_seen;
        if (before && before->occurrences > 0)
            pattern->occurrences += before->occurrences;
    }
    for (size_t i = 0; i < stored->count; i++)
        if (keeps_others || !is_of_analysis(&stored->items[i]))
            all.items[all.count++] = stored->items[i];
    *ret = all;
    return 0;
}

int query_analysis(struct store_reader *reader, const struct analysis_request *request,
                   struct arena *arena, struct analysis *ret, struct pattern_renewal *ret_renewal)
{
    _cleanup_history_ struct history history;
    struct pattern_renewal renewal = {0};
    struct pattern_list stored = {0};
    struct analysis analysis;

    record_init(&analysis_record, &analysis);
    analysis.as_of = request->now;
    analysis.since = request->now - constants->lookback_seconds;
    history_init(&history, constants, !request->all_types);
    int r = read_history(reader, request, &history, &analysis);
    if (r == 0)
        r = correlation_find(&history, request->min_sample_size, arena, &analysis);
    if (r == 0)
        r = correlation_patterns(&analysis.correlations, constants, request->now, arena,
                                 &renewal.patterns);
    /* Stored patterns derive from the runs of all users: a request for one user must not get them.
     */
    bool is_of_all = !request->job_type && !request->all_types && !int_is_known(request->uid);
    if (r == 0 && is_of_all)
        r = store_read_patterns(reader, arena, &stored);
    renewal.is_due = is_of_all && is_conclusive(&analysis);
    if (r == 0)
        r = merge_patterns(&stored, &renewal.patterns, !renewal.is_due, arena, &analysis.patterns);
    if (r < 0)
        return r;
    *ret = analysis;
    *ret_renewal = renewal;
    return 0;
}

/* ---- calibration of estimates ---- */

static int add_need(void *context, const struct run_digest *run)
{
    return calibrator_add(context, run);
}

int query_calibration(struct store_reader *reader, const char *job_type, int64_t uid,
                      struct arena *arena, struct calibration_list *ret)
{
    const struct digest_filter filter = {
        .since = REAL_UNKNOWN,
        .job_type = job_type,
        .uid = uid,
        .with_chain = true,
        .limit = constants->calibration_runs_max,
    };
    _cleanup_calibrator_ struct calibrator calibrator;

    calibrator_init(&calibrator, constants, admission_uses_estimate);
    int r = store_visit_digests(reader, &filter, add_need, &calibrator);
    return r < 0 ? r : calibrator_make(&calibrator, arena, ret);
}
