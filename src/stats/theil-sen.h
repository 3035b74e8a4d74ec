/* A slope that is robust against outliers. Pure: no I/O, no clock, no allocation. */
#pragma once

#include <stddef.h>

/* The number of elements that `scratch` of theil_sen_slope() needs. */
#define THEIL_SEN_SCRATCH(count) ((count) * ((count)-1) / 2)

/* Returns the median of the slopes between all pairs of points: Theil, Indagationes Mathematicae 12
 * (1950) 85; Sen, Journal of the American Statistical Association 63 (1968) 1379. The result
 * tolerates up to 29 % outliers. Pairs with the same x are left out; without other pairs the result
 * is 0. The values must not contain NaN. */
double theil_sen_slope(const double *x, const double *y, size_t count, double *scratch);
