/* Time. All arithmetic is in unsigned nanoseconds; the wall clock is only for labels.
 *
 * A moment is one instant on three clocks: `mono` for rates and durations (stops during a suspend),
 * `boot` for ages (the kernel stamps process starts with it; continues during a suspend), `real`
 * for labels (may be stepped). */
#pragma once

#include <stdint.h>
#include <time.h>

#define NS_PER_SEC  UINT64_C(1000000000)
#define NS_PER_MSEC UINT64_C(1000000)
#define NS_PER_USEC UINT64_C(1000)

struct moment {
    uint64_t mono_ns;
    uint64_t boot_ns;
    uint64_t real_ns;
};

uint64_t clock_mono_ns(void);
uint64_t clock_boot_ns(void);
uint64_t clock_real_ns(void);

struct moment moment_now(void);

static inline struct timespec ns_to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_SEC),
                             .tv_nsec = (long)(ns % NS_PER_SEC)};
}

static inline double ns_to_sec(uint64_t ns)
{
    return (double)ns / 1e9;
}
