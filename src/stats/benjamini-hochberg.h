/* What is left of many findings when it is taken into account how many were looked for. Pure: no
 * I/O, no clock, no allocation. */
#pragma once

#include <stddef.h>

struct tested {
    double p;
    double q;      /* filled in */
    size_t number; /* the caller's, to find its own again */
};

/* Benjamini and Hochberg, Controlling the False Discovery Rate, Journal of the Royal Statistical
 * Society B 57 (1995) 289: the smallest rate of false discoveries at which each p would still count
 * as one, as R's p.adjust(…, "BH") gives it. Sorts `tests` by p, smallest first. */
void benjamini_hochberg(struct tested *tests, size_t count);
