/* The constants of rules and episodes that are not in the configuration. The detector gets them as
 * data, so that tests can shorten ten minutes; docs/ANOMALIES.md describes them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "detect/detector.h"

struct detect_numbers {
    /* memory_spike */
    unsigned spike_points;        /* snapshots kept of a window, at most one more */
    double spike_critical_factor; /* times the threshold */
    uint64_t still_ns;            /* the start is over when a process has waited this long, … */
    double still_cpu_pct;         /* … with less CPU than this … */
    double still_ratio;           /* … and RSS within this ratio */

    /* zombie */
    unsigned zombie_snapshots; /* in a row */
    uint64_t zombie_ns;        /* … and from the first to the last of them */

    /* fd_exhaustion */
    int64_t
        fd_small_limit; /* up to this limit, the configured number applies as well as the ratio */
    double fd_critical_ratio;

    /* memory_leak */
    size_t leak_points_max;   /* kept */
    size_t leak_points_min;   /* needed for a result, at most half of the above */
    uint64_t leak_span_ns;    /* that they must cover */
    uint64_t leak_period_ns;  /* between two points, at first; doubled when there is no room */
    double leak_growth_mb;    /* over the span … */
    double leak_growth_ratio; /* … and as a share of the first point */
    double leak_tau;          /* Kendall's τ-a */

    /* stuck_process */
    uint64_t stuck_ns;

    /* episodes */
    unsigned quiet_snapshots; /* without firing, and for clear_seconds: it ends */
    double worse_factor; /* a value worse than the last report by this factor is reported again */
};

extern const struct detect_numbers detect_numbers_default;

/* detector_new() with other numbers, which are copied. */
int detector_new_with(const struct anomaly_config *config, const struct detect_numbers *numbers,
                      struct detector **ret);
