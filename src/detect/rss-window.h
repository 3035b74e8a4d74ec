/* A process's RSS over the last seconds, for what it has grown from.
 *
 * Equal values in a row are one stretch, so that an idle process costs one entry, and a window has
 * at most as many as there are remembered snapshots in it.
 *
 * A start is no spike: RSS counts from the moment at which the process has waited for something
 * once, with its RSS holding still, or at which it has lived for a window. A new program in the
 * same process (exec) starts again. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detect/numbers.h"

struct rss_stretch {
    double mb;
    uint64_t last_ns; /* when it was last seen to be so */
};

struct rss_window {
    bool has_started;
    uint64_t begun_ns; /* its life, or that of its program */
    double still_mb;   /* what RSS holds still at, if it does; unknown: not seen yet */
    uint64_t still_since_ns;

    double latest_mb; /* the last known one; unknown: none since it has started */
    uint64_t latest_ns;
    struct rss_stretch *stretches; /* oldest first, from `head` on */
    size_t head;
    size_t count;
    size_t capacity;
};

/* `age_seconds` may be unknown: then it was born now. */
void rss_window_init(struct rss_window *window, uint64_t now_ns, double age_seconds);
void rss_window_done(struct rss_window *window);
/* Another program runs in it now. */
void rss_window_restart(struct rss_window *window, uint64_t now_ns);

struct rss_baseline {
    double mb;
    uint64_t until_ns; /* as last_ns above */
};

/* The earliest that is remembered within `length_ns` before now, else the latest. Whether there is
 * one. */
bool rss_window_baseline(struct rss_window *window, uint64_t now_ns, uint64_t length_ns,
                         struct rss_baseline *ret);

struct rss_sighting {
    double mb;       /* may be unknown: then nothing was seen */
    bool is_waiting; /* rather than computing, since the last one */
    uint64_t ns;
    uint64_t window_ns;
    bool is_remembered; /* not only until the next one */
};

/* 0 or -ENOMEM: then it counts as the latest only. */
int rss_window_add(struct rss_window *window, const struct rss_sighting *seen,
                   const struct detect_numbers *numbers);
