/* The RSS of a process over its whole life, as a bounded number of points, and whether the process
 * leaks memory. A point is added when a period has passed since the last one. When there is no
 * room, every second point is dropped and the period is doubled, so that the points always cover
 * the whole life evenly. Each new point updates the result. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "detect/detect-constants.h"

struct rss_point {
    uint64_t ns;
    double mb;
};

struct rss_leak {
    bool is_leak;     /* false: the other fields are not all set */
    double growth_mb; /* by the Theil-Sen slope, at most the range of the points */
    double needed_mb; /* the threshold */
    double seconds;   /* covered by the points */
};

struct rss_history {
    struct VEC(struct rss_point) points;
    uint64_t period_ns;
    struct rss_leak leak;
};

/* Work memory shared by all histories. Zero-initialised is valid. */
struct leak_scratch {
    double *seconds;
    double *mb;
    double *slopes;
};

void rss_history_init(struct rss_history *history, const struct detect_constants *constants);
void rss_history_done(struct rss_history *history);
/* Drops all points, after an exec. */
void rss_history_restart(struct rss_history *history, const struct detect_constants *constants);
void leak_scratch_done(struct leak_scratch *scratch);

/* Adds a point if one is due and `mb` is known. Returns 0, or -ENOMEM: then the point is not added,
 * or the result is "no leak". */
int rss_history_add(struct rss_history *history, double mb, uint64_t now_ns,
                    const struct detect_constants *constants, struct leak_scratch *scratch);
