/* The confidence interval of a proportion. Pure: no I/O, no clock, no allocation. */
#pragma once

#include <stdint.h>

struct interval {
    double low;
    double high;
};

/* Returns Wilson's 95 % score interval (Journal of the American Statistical Association 22 (1927)
 * 209) for `hits` out of `count` ≥ 1, without a correction for continuity. The interval stays
 * within 0 to 1, and is useful even for 0 out of 5. */
struct interval wilson_interval(int64_t hits, int64_t count);
