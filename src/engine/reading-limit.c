#include "engine/reading-limit.h"

#include "base/clock.h"

/* In the long run, such readings take one part in so many of the time. */
#define SHARE 10
/* What they may take at once: hundreds of small runs that end together. */
#define AT_ONCE_NS (200 * NS_PER_MSEC)

bool reading_limit_allows(struct reading_limit *limit, uint64_t now_ns)
{
    uint64_t recovered_ns = (now_ns - limit->at_ns) / SHARE;

    limit->used_ns -= recovered_ns < limit->used_ns ? recovered_ns : limit->used_ns;
    limit->at_ns = now_ns;
    return limit->used_ns < AT_ONCE_NS;
}

void reading_limit_add(struct reading_limit *limit, uint64_t took_ns)
{
    limit->used_ns += took_ns;
}
