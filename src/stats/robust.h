/* How unusual a value is among others, of which some may be outliers. Pure: no I/O, no clock, no
 * allocation. */
#pragma once

#include <stddef.h>

struct robust_spread {
    double median;
    double deviation; /* comparable with a standard deviation; 0: all values are equal */
};

/* Returns the median of `count` ≥ 1 values, and a deviation: 1.4826 times the median of the
 * distances to the median, which is the standard deviation of normally distributed values (Hampel,
 * Journal of the American Statistical Association 69 (1974) 383; R's mad()). If more than half of
 * the values are equal, that would be 0; the deviation is then 1.2533 times the mean distance
 * (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993). Overwrites `values`, which must
 * not contain NaN. */
struct robust_spread robust_spread(double *values, size_t count);

/* Returns the distance of a value from the median, in deviations; ±infinity if the deviation is 0
 * and the value differs from the median. */
double robust_z(const struct robust_spread *spread, double value);
