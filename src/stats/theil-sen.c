#include "stats/theil-sen.h"

#include "stats/quantile.h"

double theil_sen_slope(const double *x, const double *y, size_t count, double *scratch)
{
    size_t pairs = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++)
            if (x[k] != x[i])
                scratch[pairs++] = (y[k] - y[i]) / (x[k] - x[i]);
    return pairs ? quantile(scratch, pairs, 0.5) : 0;
}
