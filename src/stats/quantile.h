/* Quantiles of a sample. Pure: no I/O, no clock, no allocation. */
#pragma once

#include <stddef.h>

/* Returns the p-quantile (p from 0 to 1) of `count` ≥ 1 values, by linear interpolation between the
 * order statistics around (count − 1)·p: definition 7 of Hyndman and Fan, Sample Quantiles in
 * Statistical Packages, The American Statistician 50 (1996) 361, the default of R and NumPy.
 * Reorders `values`, which must not contain NaN. */
double quantile(double *values, size_t count, double p);
