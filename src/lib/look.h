/* One look at what is monitored: one process, or several together. */
#pragma once

#include <stdint.h>

struct look {
    uint64_t mono_ns;
    int64_t cpu_ns;      /* never falls from look to look; INT_UNKNOWN: unknown, as below */
    int64_t rss_bytes;   /* unknown if nothing lives any more */
    int64_t risen_bytes; /* a peak that was reached since the last look; unknown if none is known */
};
