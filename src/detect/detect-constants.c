#include "detect/detect-constants.h"

#include "base/clock.h"

const struct detect_constants detect_constants_default = {
    /* A point every 0.12 s of the default window of 30 s: finer points would not change a baseline.
     */
    .spike_points = 256,
    .spike_critical_factor = 2,
    /* A compiler computes, and grows, from its start to its end; a server, or a script that waits,
       has finished its start. */
    .still_ns = 1 * NS_PER_SEC,
    .still_cpu_pct = 50,
    .still_ratio = 0.10,

    /* Every process is a zombie until its parent reaps it. */
    .zombie_snapshots = 2,
    .zombie_ns = 2 * NS_PER_SEC,

    .fd_small_limit = 4096,
    .fd_critical_ratio = 0.95,

    /* 4 s: every snapshot at the default interval of 5 s, so that ten minutes are 120 points. From
     * the first thinning on there are 64 to 128 points, for any interval. */
    .leak_points_max = 128,
    .leak_points_min = 60,
    .leak_span_ns = 600 * NS_PER_SEC,
    .leak_period_ns = 4 * NS_PER_SEC,
    .leak_growth_mb = 100,
    .leak_growth_ratio = 0.25,
    .leak_tau = 0.8,

    .stuck_ns = 60 * NS_PER_SEC,

    .quiet_snapshots = 3,
    /* A value that grows a thousandfold is reported 18 times. */
    .worse_factor = 1.5,
};
