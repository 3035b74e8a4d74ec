/* Order statistics. Pure: no I/O, no clock, no allocation. */
#pragma once

#include <stddef.h>

/* The k-th largest value (k from 1 to count), in linear time on average (Hoare's selection, CACM 4
 * (1961) 321). Reorders `values`, which must not contain NaN: the first k are not smaller than it.
 */
double order_kth_largest(double *values, size_t count, size_t k);
