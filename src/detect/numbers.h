/* The numbers of the rules and of episodes that are not in the configuration, at one place.
 *
 * They are given to the detector as data, so that a test can make ten minutes short;
 * docs/ANOMALIES.md says the same in words. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "detect/detector.h"

struct detect_numbers {
    /* memory_spike */
    unsigned spike_points;        /* snapshots of a window that are remembered, at most one more */
    double spike_critical_factor; /* times the threshold */
    uint64_t still_ns;            /* a start is over when a process has waited for so long, … */
    double still_cpu_pct;         /* … with less CPU than this … */
    double still_ratio;           /* … and RSS within this share of what it was */

    /* zombie */
    unsigned zombie_snapshots; /* in a row */
    uint64_t zombie_ns;        /* and from the first to the last of them */

    /* fd_exhaustion */
    int64_t fd_small_limit; /* up to it the configured number counts as well as the ratio */
    double fd_critical_ratio;

    /* memory_leak */
    size_t leak_points_max;   /* that are remembered */
    size_t leak_points_min;   /* that a verdict needs, at most half of the above */
    uint64_t leak_span_ns;    /* that they must cover */
    uint64_t leak_period_ns;  /* between two points, at first; doubles when there is no more room */
    double leak_growth_mb;    /* over the span … */
    double leak_growth_ratio; /* … and as a share of the first point */
    double leak_tau;          /* Kendall's τ-a */

    /* stuck_process */
    uint64_t stuck_ns;

    /* episodes */
    unsigned quiet_snapshots; /* without firing, and for clear_seconds: it is over */
    double worse_factor;      /* the value by so much beyond what was last told is told again */
};

extern const struct detect_numbers detect_numbers_default;

/* detector_new() with other numbers, which are copied. */
int detector_new_with(const struct anomaly_config *config, const struct detect_numbers *numbers,
                      struct detector **ret);
