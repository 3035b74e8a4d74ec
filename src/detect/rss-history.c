#include "detect/rss-history.h"

#include "base/clock.h"
#include "base/macros.h"
#include "model/field.h"
#include "stats/kendall.h"
#include "stats/theil-sen.h"

void rss_history_init(struct rss_history *history, const struct detect_constants *constants)
{
    *history = (struct rss_history){.period_ns = constants->leak_period_ns};
}

void rss_history_done(struct rss_history *history)
{
    VEC_DONE(&history->points);
}

void rss_history_restart(struct rss_history *history, const struct detect_constants *constants)
{
    history->points.count = 0;
    history->period_ns = constants->leak_period_ns;
    history->leak = (struct rss_leak){0};
}

void leak_scratch_done(struct leak_scratch *scratch)
{
    free(scratch->seconds);
    free(scratch->mb);
    free(scratch->slopes);
    *scratch = (struct leak_scratch){0};
}

/* Allocated only once a process has grown a lot. */
static int get_scratch(struct leak_scratch *scratch, size_t points)
{
    if (!scratch->seconds)
        scratch->seconds = malloc(points * sizeof(*scratch->seconds));
    if (!scratch->mb)
        scratch->mb = malloc(points * sizeof(*scratch->mb));
    if (!scratch->slopes)
        scratch->slopes = malloc(THEIL_SEN_SCRATCH(points) * sizeof(*scratch->slopes));
    return scratch->seconds && scratch->mb && scratch->slopes ? 0 : -ENOMEM;
}

static double range_mb(const struct rss_history *history)
{
    double least = history->points.items[0].mb, most = least;

    for (size_t i = 1; i < history->points.count; i++) {
        least = MIN(least, history->points.items[i].mb);
        most = MAX(most, history->points.items[i].mb);
    }
    return most - least;
}

/* Cheap checks first: processes that do not grow cost nothing more. */
static int detect_leak(const struct rss_history *history, const struct detect_constants *constants,
                       struct leak_scratch *scratch, struct rss_leak *ret)
{
    const struct rss_point *points = history->points.items;
    size_t count = history->points.count;
    uint64_t span_ns = points[count - 1].ns - points[0].ns;

    *ret = (struct rss_leak){.seconds = ns_to_sec(span_ns)};
    if (count < constants->leak_points_min || span_ns < constants->leak_span_ns)
        return 0;
    double most_mb = range_mb(history);
    ret->needed_mb = MAX(constants->leak_growth_mb, constants->leak_growth_ratio * points[0].mb);
    if (most_mb < ret->needed_mb)
        return 0;

    int r = get_scratch(scratch, constants->leak_points_max);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        scratch->seconds[i] = ns_to_sec(points[i].ns - points[0].ns);
        scratch->mb[i] = points[i].mb;
    }
    if (kendall_tau_a(scratch->mb, count) < constants->leak_tau)
        return 0;
    double slope = theil_sen_slope(scratch->seconds, scratch->mb, count, scratch->slopes);
    ret->growth_mb = MIN(slope * ret->seconds, most_mb);
    ret->is_leak = ret->growth_mb >= ret->needed_mb;
    return 0;
}

static bool is_due(const struct rss_history *history, uint64_t now_ns)
{
    size_t count = history->points.count;
    return !count || now_ns - history->points.items[count - 1].ns >= history->period_ns;
}

static void thin_out(struct rss_history *history)
{
    size_t kept = 0;

    for (size_t i = 0; i < history->points.count; i += 2)
        history->points.items[kept++] = history->points.items[i];
    history->points.count = kept;
    history->period_ns *= 2;
}

int rss_history_add(struct rss_history *history, double mb, uint64_t now_ns,
                    const struct detect_constants *constants, struct leak_scratch *scratch)
{
    if (!real_is_known(mb) || !is_due(history, now_ns))
        return 0;
    if (history->points.count >= constants->leak_points_max) {
        thin_out(history);
        if (!is_due(history, now_ns))
            return 0;
    }
    int r = VEC_PUSH(&history->points, (struct rss_point){.ns = now_ns, .mb = mb});
    return r < 0 ? r : detect_leak(history, constants, scratch, &history->leak);
}
