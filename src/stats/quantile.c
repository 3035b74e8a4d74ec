#include "stats/quantile.h"

#include <math.h>

#include "stats/order.h"

double quantile(double *values, size_t count, double p)
{
    double position = (double)(count - 1) * p;
    size_t below = (size_t)floor(position);
    double share = position - (double)below;

    double low = order_kth_largest(values, count, count - below);
    if (share <= 0)
        return low;
    double high = order_kth_largest(values, count, count - below - 1);
    return low + share * (high - low);
}
