/* One reading of the target of a monitor: one process, or the sums over several. */
#pragma once

#include <stdint.h>

struct target_reading {
    uint64_t mono_ns;
    int64_t cpu_ns;      /* never decreases; INT_UNKNOWN if unknown, as the others */
    int64_t rss_bytes;   /* unknown if no process lives */
    int64_t risen_bytes; /* a peak RSS reached since the last reading; unknown if there is none */
};
