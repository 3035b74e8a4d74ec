#include "stats/wilson.h"

#include <math.h>

/* The 0.975 quantile of the normal distribution. */
#define Z95 1.959963984540054

struct interval wilson_interval(int64_t hits, int64_t count)
{
    double n = (double)count, share = (double)hits / n;
    double centre = share + Z95 * Z95 / (2 * n);
    double reach = Z95 * sqrt(share * (1 - share) / n + Z95 * Z95 / (4 * n * n));
    double scale = 1 + Z95 * Z95 / n;

    /* With 0 hits or only hits, one bound is known exactly, despite rounding. */
    return (struct interval){
        .low = hits == 0 ? 0 : (centre - reach) / scale,
        .high = hits == count ? 1 : (centre + reach) / scale,
    };
}
