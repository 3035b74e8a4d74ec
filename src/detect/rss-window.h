/* The RSS of a process over the last seconds, as the baseline of its growth.
 *
 * Equal values in a row are one stretch, so that an idle process costs one entry, and a window has
 * at most as many as there are remembered snapshots in it.
 *
 * A start is no spike: RSS counts once the process has waited for something with constant RSS, or
 * has lived for a window. An exec starts again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detect/numbers.h"

struct rss_stretch {
    double mb;
    uint64_t last_ns; /* when it was last read */
};

struct rss_window {
    bool has_started;
    uint64_t begun_ns; /* start of the process or of its program */
    double still_mb;   /* the constant RSS, if it is; unknown: not read yet */
    uint64_t still_since_ns;

    double latest_mb; /* the last known; unknown: none since the start */
    uint64_t latest_ns;
    struct rss_stretch *stretches; /* oldest first, from `head` on */
    size_t head;
    size_t count;
    size_t capacity;
};

/* `age_seconds` may be unknown: then it started now. */
void rss_window_init(struct rss_window *window, uint64_t now_ns, double age_seconds);
void rss_window_done(struct rss_window *window);
/* The process called exec. */
void rss_window_restart(struct rss_window *window, uint64_t now_ns);

struct rss_baseline {
    double mb;
    uint64_t until_ns; /* as last_ns above */
};

/* The earliest value within `length_ns` before now, else the latest. Returns whether there is one.
 */
bool rss_window_baseline(struct rss_window *window, uint64_t now_ns, uint64_t length_ns,
                         struct rss_baseline *ret);

struct rss_sample {
    double mb;       /* may be unknown: then it is ignored */
    bool is_waiting; /* and not computing, since the last one */
    uint64_t ns;
    uint64_t window_ns;
    bool is_baseline; /* kept beyond the next one */
};

/* 0, or -ENOMEM: then it is only the latest value. */
int rss_window_add(struct rss_window *window, const struct rss_sample *sample,
                   const struct detect_numbers *numbers);
