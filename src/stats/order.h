/* Order statistics. Pure: no I/O, no clock, no allocation. */
#pragma once

#include <stddef.h>

/* Returns the k-th largest value (k from 1 to count), in linear time on average (Hoare's selection,
 * CACM 4 (1961) 321). Reorders `values`, which must not contain NaN: afterwards the first k values
 * are at least as large as the result. */
double order_kth_largest(double *values, size_t count, size_t k);
