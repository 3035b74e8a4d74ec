#include "stats/robust.h"

#include <math.h>

#include "stats/quantile.h"

/* 1/Φ⁻¹(3/4) and √(π/2). */
#define DEVIATIONS_PER_MEDIAN 1.4826
#define DEVIATIONS_PER_MEAN   1.2533

struct robust_spread robust_spread(double *values, size_t count)
{
    double median = quantile(values, count, 0.5), sum = 0;

    for (size_t i = 0; i < count; i++) {
        values[i] = fabs(values[i] - median);
        sum += values[i];
    }
    double deviation = DEVIATIONS_PER_MEDIAN * quantile(values, count, 0.5);
    if (deviation <= 0)
        deviation = DEVIATIONS_PER_MEAN * sum / (double)count;
    return (struct robust_spread){.median = median, .deviation = deviation};
}

double robust_z(const struct robust_spread *spread, double value)
{
    double distance = value - spread->median;

    if (spread->deviation > 0)
        return distance / spread->deviation;
    return distance == 0 ? 0 : copysign(INFINITY, distance);
}
