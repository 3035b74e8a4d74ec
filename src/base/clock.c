#include "base/clock.h"

#include <time.h>

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t clock_mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t clock_boot_ns(void)
{
    return clock_ns(CLOCK_BOOTTIME);
}

uint64_t clock_real_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

struct moment moment_now(void)
{
    return (struct moment){
        .mono_ns = clock_mono_ns(), .boot_ns = clock_boot_ns(), .real_ns = clock_real_ns()};
}
