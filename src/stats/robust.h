/* How unusual a value is among others, some of which may be anything. Pure: no I/O, no clock, no
 * allocation. */
#pragma once

#include <stddef.h>

struct robust_spread {
    double median;
    double deviation; /* comparable with a standard deviation; 0: all are the same */
};

/* The median, and 1.4826 times the median of the distances to it, which is the standard deviation
 * where the values are normal (Hampel, Journal of the American Statistical Association 69 (1974)
 * 383; R's mad()). Where more than half are the same, and that is 0, 1.2533 times the mean distance
 * stands for it (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993). Of `count` ≥ 1
 * values without a NaN, which it spoils. */
struct robust_spread robust_spread(double *values, size_t count);

/* How many deviations a value lies off the median; ±infinity if the others are all the same and it
 * is not. */
double robust_z(const struct robust_spread *spread, double value);
