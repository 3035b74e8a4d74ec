/* Rank correlation. Pure: no I/O, no clock, no allocation. */
#pragma once

#include <stddef.h>

/* Returns Kendall's τ-a (Biometrika 30 (1938) 81): the share of pairs in which y rises with x minus
 * the share in which it falls, from −1 to 1; 0 for fewer than two points. A pair with equal y
 * counts as neither, so that constant values move the result towards 0. `y` is in the order of x,
 * which rises strictly. */
double kendall_tau_a(const double *y, size_t count);
