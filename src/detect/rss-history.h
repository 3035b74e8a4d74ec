/* A process's RSS over its whole life, thinned to a bounded number of points, and whether it leaks.
 *
 * A point is taken when a period has passed since the last. When there is no more room, every
 * second point goes and the period doubles, so that the points always cover the whole life evenly.
 * The verdict is found anew with each point and holds until the next. */
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
    bool is_one;
    double growth_mb; /* by the Theil-Sen slope, but no more than there is between two points */
    double needed_mb; /* that makes it a leak */
    double seconds;   /* that the points cover */
};

struct rss_history {
    struct VEC(struct rss_point) points;
    uint64_t period_ns;
    struct rss_leak leak;
};

/* Room for one verdict, shared by all histories. Zero-initialised is valid. */
struct leak_scratch {
    double *seconds;
    double *mb;
    double *slopes;
};

void rss_history_init(struct rss_history *history, const struct detect_numbers *numbers);
void rss_history_done(struct rss_history *history);
/* Another program runs in it now. */
void rss_history_restart(struct rss_history *history, const struct detect_numbers *numbers);
void leak_scratch_done(struct leak_scratch *scratch);

/* Takes a point if it is due and known. 0 or -ENOMEM: then it is not taken, or its verdict is that
 * there is no leak. */
int rss_history_add(struct rss_history *history, double mb, uint64_t now_ns,
                    const struct detect_numbers *numbers, struct leak_scratch *scratch);
