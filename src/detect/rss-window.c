#include "detect/rss-window.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/vec.h"
#include "model/field.h"

void rss_window_init(struct rss_window *window, uint64_t now_ns, double age_seconds)
{
    double age_ns = real_is_known(age_seconds) ? MAX(age_seconds, 0.0) * 1e9 : 0;

    *window = (struct rss_window){.still_mb = REAL_UNKNOWN, .latest_mb = REAL_UNKNOWN};
    /* A process may be older than this clock, which stops during a suspend. */
    window->begun_ns = age_ns < (double)now_ns ? now_ns - (uint64_t)age_ns : 0;
}

void rss_window_done(struct rss_window *window)
{
    free(window->stretches);
    window->stretches = NULL;
}

void rss_window_restart(struct rss_window *window, uint64_t now_ns)
{
    window->has_started = false;
    window->begun_ns = now_ns;
    window->still_mb = window->latest_mb = REAL_UNKNOWN;
    window->head = window->count = 0;
}

bool rss_window_baseline(struct rss_window *window, uint64_t now_ns, uint64_t length_ns,
                         struct rss_baseline *ret)
{
    while (window->count && now_ns - window->stretches[window->head].last_ns > length_ns) {
        window->head++;
        window->count--;
    }
    if (window->count) {
        const struct rss_stretch *oldest = &window->stretches[window->head];
        *ret = (struct rss_baseline){.mb = oldest->mb, .until_ns = oldest->last_ns};
        return true;
    }
    *ret = (struct rss_baseline){.mb = window->latest_mb, .until_ns = window->latest_ns};
    return real_is_known(window->latest_mb);
}

/* Returns whether the start of the program is over with this sample. */
static bool ends_start(struct rss_window *window, const struct rss_sample *sample,
                       const struct detect_constants *constants)
{
    if (sample->ns - window->begun_ns >= sample->window_ns)
        return true;
    double moved_mb = fabs(sample->mb - window->still_mb);
    if (!sample->is_waiting || !(moved_mb <= constants->still_ratio * window->still_mb)) {
        window->still_mb = sample->mb;
        window->still_since_ns = sample->ns;
        return false;
    }
    return sample->ns - window->still_since_ns >= constants->still_ns;
}

/* Makes room at the end, by moving entries to the front if enough have left there. */
static int make_room(struct rss_window *window)
{
    if (window->head + window->count < window->capacity)
        return 0;
    if (window->head > window->capacity / 4) {
        memmove(window->stretches, window->stretches + window->head,
                window->count * sizeof(*window->stretches));
        window->head = 0;
        return 0;
    }
    return vec_reserve_bytes((void **)&window->stretches, &window->capacity, window->capacity + 1,
                             sizeof(*window->stretches));
}

static int add_to_window(struct rss_window *window, const struct rss_sample *sample)
{
    struct rss_stretch *newest =
        window->count ? &window->stretches[window->head + window->count - 1] : NULL;

    if (newest && newest->mb == sample->mb) {
        newest->last_ns = sample->ns;
        return 0;
    }
    int r = make_room(window);
    if (r < 0)
        return r;
    window->stretches[window->head + window->count++] =
        (struct rss_stretch){.mb = sample->mb, .last_ns = sample->ns};
    return 0;
}

int rss_window_add(struct rss_window *window, const struct rss_sample *sample,
                   const struct detect_constants *constants)
{
    if (!real_is_known(sample->mb))
        return 0;
    if (!window->has_started)
        window->has_started = ends_start(window, sample, constants);
    if (!window->has_started)
        return 0;
    window->latest_mb = sample->mb;
    window->latest_ns = sample->ns;
    return sample->is_baseline ? add_to_window(window, sample) : 0;
}
