/* The RSS of a process over the last seconds, as the baseline of its growth.
 *
 * Consecutive equal values are one stretch, so that an idle process needs one entry. A window has
 * at most one stretch for each of its baseline snapshots.
 *
 * The growth at the start of a program is no spike: RSS counts only after the process has waited
 * for something with constant RSS, or has lived as long as the window. An exec starts this again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detect/detect-constants.h"

struct rss_stretch {
    double mb;
    uint64_t last_ns; /* when it was last read */
};

struct rss_window {
    bool has_started;
    uint64_t begun_ns; /* start of the process or of its program */
    double still_mb;   /* RSS since still_since_ns, within still_ratio; unknown: not read yet */
    uint64_t still_since_ns;

    double latest_mb; /* the last known RSS; unknown: none since the start was over */
    uint64_t latest_ns;
    struct rss_stretch *stretches; /* oldest first, from `head` on */
    size_t head;
    size_t count;
    size_t capacity;
};

/* If `age_seconds` is unknown, the process counts as started now. */
void rss_window_init(struct rss_window *window, uint64_t now_ns, double age_seconds);
void rss_window_done(struct rss_window *window);
/* Empties the window, after an exec. */
void rss_window_restart(struct rss_window *window, uint64_t now_ns);

struct rss_baseline {
    double mb;
    uint64_t until_ns; /* as last_ns above */
};

/* Finds the earliest value of the last `length_ns`; without one, the latest value. Returns whether
 * there is any. */
bool rss_window_baseline(struct rss_window *window, uint64_t now_ns, uint64_t length_ns,
                         struct rss_baseline *ret);

struct rss_sample {
    double mb;       /* a sample with an unknown value is ignored */
    bool is_waiting; /* the process has waited since the last sample, not computed */
    uint64_t ns;
    uint64_t window_ns; /* length of the window */
    bool is_baseline;   /* keep the sample for baselines */
};

/* Adds a sample. Returns 0, or -ENOMEM: then the sample is only the latest value, not a baseline.
 */
int rss_window_add(struct rss_window *window, const struct rss_sample *sample,
                   const struct detect_constants *constants);
