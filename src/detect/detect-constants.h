/* The constants of rules and episodes that are not in the configuration. The detector gets them as
 * data, so that tests can shorten ten minutes; docs/ANOMALIES.md describes them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "detect/detector.h"

struct detect_constants {
    /* memory_spike */
    unsigned spike_points;        /* snapshots that a window keeps; there may be one more */
    double spike_critical_factor; /* multiple of the threshold that makes a spike critical */
    /* The start of a process is over when, for still_ns, it has waited with less CPU than
     * still_cpu_pct and its RSS has changed by at most still_ratio. */
    uint64_t still_ns;
    double still_cpu_pct;
    double still_ratio;

    /* zombie */
    unsigned zombie_snapshots; /* consecutive snapshots that must show the zombie … */
    uint64_t zombie_ns;        /* … over at least this time */

    /* fd_exhaustion */
    int64_t fd_small_limit;   /* up to this limit, the configured number applies, too */
    double fd_critical_ratio; /* from this share of the limit on, it is critical */

    /* memory_leak */
    size_t leak_points_max;   /* number of points that are kept */
    size_t leak_points_min;   /* number that a result needs; at most half of leak_points_max */
    uint64_t leak_span_ns;    /* time that the points must cover */
    uint64_t leak_period_ns;  /* between two points, at first; doubled when there is no room */
    double leak_growth_mb;    /* smallest growth over that time … */
    double leak_growth_ratio; /* … and as a share of the first point */
    double leak_tau;          /* smallest Kendall's τ-a */

    /* stuck_process */
    uint64_t stuck_ns;

    /* episodes */
    unsigned quiet_snapshots; /* a member leaves after these and clear_seconds without firing */
    double worse_factor; /* a value worse than the last report by this factor is reported again */
};

extern const struct detect_constants detect_constants_default;

/* Does the same as detector_new() with other constants, which are copied. For tests. */
int detector_new_with(const struct anomaly_config *config, const struct detect_constants *constants,
                      struct detector **ret);
