/* Correction of p-values for the number of tests. Pure: no I/O, no clock, no allocation. */
#pragma once

#include <stddef.h>

struct hypothesis_test {
    double p;
    double q;      /* the result */
    size_t number; /* for the caller, to identify the test after sorting */
};

/* Benjamini and Hochberg, Controlling the False Discovery Rate, Journal of the Royal Statistical
 * Society B 57 (1995) 289. Sets q to the smallest false discovery rate at which the test would
 * still be significant, like R's p.adjust(…, "BH"). Sorts `tests` by p, smallest first. */
void benjamini_hochberg(struct hypothesis_test *tests, size_t count);
