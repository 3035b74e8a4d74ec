/* How unusual a value is among others, of which some may be outliers. Pure: no I/O, no clock, no
 * allocation. */
#pragma once

#include <stddef.h>

struct robust_spread {
    double median;
    double deviation; /* comparable with a standard deviation; 0: all values are equal */
};

/* The median of `count` ≥ 1 values, and 1.4826 times the median of the distances to it, which is
 * the standard deviation of normally distributed values (Hampel, Journal of the American
 * Statistical Association 69 (1974) 383; R's mad()). If more than half of the values are equal,
 * that is 0; then 1.2533 times the mean distance is used instead (Iglewicz and Hoaglin, How to
 * Detect and Handle Outliers, 1993). Overwrites `values`, which must not contain NaN. */
struct robust_spread robust_spread(double *values, size_t count);

/* The distance of a value from the median in deviations; ±infinity if all others are equal and it
 * differs. */
double robust_z(const struct robust_spread *spread, double value);
