/* The RSS of a process over its whole life, reduced to a bounded number of points, and whether it
 * leaks. A point is added when a period has passed since the last. Without room, every second point
 * is dropped and the period doubled, so that the points always cover the whole life evenly. The
 * result is computed with each point and valid until the next. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "detect/numbers.h"

struct rss_point {
    uint64_t ns;
    double mb;
};

struct rss_leak {
    bool is_leak;
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

void rss_history_init(struct rss_history *history, const struct detect_numbers *numbers);
void rss_history_done(struct rss_history *history);
/* The process called exec. */
void rss_history_restart(struct rss_history *history, const struct detect_numbers *numbers);
void leak_scratch_done(struct leak_scratch *scratch);

/* Adds a point if it is due and known. 0, or -ENOMEM: then it is not added, or counts as no leak.
 */
int rss_history_add(struct rss_history *history, double mb, uint64_t now_ns,
                    const struct detect_numbers *numbers, struct leak_scratch *scratch);
