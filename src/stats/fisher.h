/* Whether two shares differ by more than chance. Pure: no I/O, no clock, no allocation. */
#pragma once

#include <stdint.h>

/* Fisher's exact test of a 2×2 table (Statistical Methods for Research Workers, 1934), two-sided:
 * the probability, with all four sums given, of a table that is no more likely than this one.
 * Tables that only rounding makes less likely count as well, by the 1e-7 that R's fisher.test()
 * allows for. 1 for a table with an empty row or column. Takes time in proportion to the smallest
 * sum. */
double fisher_exact(int64_t a, int64_t b, int64_t c, int64_t d);
