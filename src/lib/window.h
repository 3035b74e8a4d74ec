/* The usage in a period of time, as running sums, so that a summary is exact even if few samples
 * are kept. No clock, no I/O. */
#pragma once

#include "lib/gpu-figures.h"
#include "lib/target-reading.h"
#include "sonde/sonde.h"

/* A running mean of known values. Not a sum, because the sum of finite values may overflow. */
struct mean {
    double value;
    uint64_t count;
};

struct window {
    uint64_t count;
    uint64_t first_ns, last_ns;
    int64_t first_cpu_ns, last_cpu_ns;
    int64_t first_rss_bytes, last_rss_bytes;
    int64_t peak_rss_bytes;
    double peak_gpu_mem_mb;
    struct mean rss_bytes;
    struct mean gpu_util;
    struct mean gpu_clock_mhz;
    struct mean gpu_power_w;
};

void window_init(struct window *window);
void window_add(struct window *window, const struct target_reading *reading,
                const struct gpu_figures *gpu);

/* Adds only CPU time and a peak, for a reading after the last sample. */
void window_add_rest(struct window *window, const struct target_reading *reading);

void window_sum_up(const struct window *window, struct sonde_summary *ret);
