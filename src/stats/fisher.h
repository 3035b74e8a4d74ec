/* The significance of the difference between two proportions. Pure: no I/O, no clock, no
 * allocation. */
#pragma once

#include <stdint.h>

/* Fisher's exact test of a 2×2 table (Statistical Methods for Research Workers, 1934), two-sided.
 * Returns the probability, given the four marginal sums, of a table that is not more likely than
 * this one; 1 for a table with an empty row or column. Allows for rounding with a factor of
 * 1 + 1e-7, like R's fisher.test(). The time is proportional to the smallest sum. */
double fisher_exact(int64_t a, int64_t b, int64_t c, int64_t d);
