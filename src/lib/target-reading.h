/* One reading of the monitored process, or of all monitored processes together. */
#pragma once

#include <stdint.h>

struct target_reading {
    uint64_t mono_ns;
    int64_t cpu_ns;      /* never decreases; INT_UNKNOWN like the others if unknown */
    int64_t rss_bytes;   /* unknown if no process lives */
    int64_t risen_bytes; /* a peak reached since the last reading; unknown if there is none */
};
