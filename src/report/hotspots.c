#include "report/hotspots.h"

#include <math.h>

#include "model/waiting-calls.h"

double hotspots_busy_percent(const struct tally_list *hotspots)
{
    double busy = 100;

    for (size_t i = 0; i < hotspots->count; i++)
        if (hotspots->items[i].value > 0 && call_is_waiting(hotspots->items[i].name))
            busy -= hotspots->items[i].value;
    return fmax(busy, 0);
}

double hotspots_share(const char *name, double percent, double busy_percent)
{
    if (call_is_waiting(name))
        return REAL_UNKNOWN;
    return busy_percent > 0 ? fmin(100 * percent / busy_percent, 100) : 0;
}
