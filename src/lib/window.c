#include "lib/window.h"

#include "base/clock.h"
#include "base/macros.h"

void window_init(struct window *window)
{
    *window = (struct window){
        .first_cpu_ns = INT_UNKNOWN,
        .last_cpu_ns = INT_UNKNOWN,
        .first_rss_bytes = INT_UNKNOWN,
        .last_rss_bytes = INT_UNKNOWN,
        .peak_rss_bytes = INT_UNKNOWN,
        .peak_gpu_mem_mb = REAL_UNKNOWN,
    };
}

static void mean_add(struct mean *mean, double value)
{
    if (!real_is_known(value))
        return;
    mean->count++;
    mean->value += (value - mean->value) / (double)mean->count;
}

static double mean_value(const struct mean *mean)
{
    return mean->count ? mean->value : REAL_UNKNOWN;
}

void window_add_rest(struct window *window, const struct target_reading *reading)
{
    if (int_is_known(reading->cpu_ns)) {
        if (!int_is_known(window->first_cpu_ns))
            window->first_cpu_ns = reading->cpu_ns;
        window->last_cpu_ns = reading->cpu_ns;
    }
    /* INT_UNKNOWN is smaller than any known value. */
    window->peak_rss_bytes = MAX(window->peak_rss_bytes, reading->risen_bytes);
}

/* A window begins with its first reading: a peak before that does not belong to it. */
void window_add(struct window *window, const struct target_reading *reading,
                const struct gpu_figures *gpu)
{
    struct target_reading own = *reading;

    if (window->count++ == 0) {
        window->first_ns = reading->mono_ns;
        own.risen_bytes = INT_UNKNOWN;
    }
    window->last_ns = reading->mono_ns;
    window_add_rest(window, &own);
    if (int_is_known(reading->rss_bytes)) {
        if (!int_is_known(window->first_rss_bytes))
            window->first_rss_bytes = reading->rss_bytes;
        window->last_rss_bytes = reading->rss_bytes;
        window->peak_rss_bytes = MAX(window->peak_rss_bytes, reading->rss_bytes);
        mean_add(&window->rss_bytes, (double)reading->rss_bytes);
    }
    window->peak_gpu_mem_mb = fmax(window->peak_gpu_mem_mb, gpu->mem_mb); /* fmax ignores NaN */
    mean_add(&window->gpu_util, gpu->util);
    mean_add(&window->gpu_clock_mhz, gpu->clock_mhz);
    mean_add(&window->gpu_power_w, gpu->power_w);
}

static double mb_or_none(int64_t bytes)
{
    return int_is_known(bytes) ? (double)bytes / BYTES_PER_MB : 0;
}

void window_sum_up(const struct window *window, struct sonde_summary *ret)
{
    double duration_sec = ns_to_sec(window->last_ns - window->first_ns);
    double cpu_seconds = int_is_known(window->first_cpu_ns)
                             ? (double)(window->last_cpu_ns - window->first_cpu_ns) / 1e9
                             : 0;

    *ret = (struct sonde_summary){
        .peak_rss_mb = mb_or_none(window->peak_rss_bytes),
        .mean_rss_mb = window->rss_bytes.count ? mean_value(&window->rss_bytes) / BYTES_PER_MB : 0,
        .peak_gpu_mem_mb = window->peak_gpu_mem_mb,
        .mean_gpu_util = mean_value(&window->gpu_util),
        .memory_growth_mb =
            mb_or_none(window->last_rss_bytes) - mb_or_none(window->first_rss_bytes),
        .num_samples = (int64_t)window->count,
        .duration_sec = duration_sec,
        .mean_gpu_clock_mhz = mean_value(&window->gpu_clock_mhz),
        .mean_gpu_power_w = mean_value(&window->gpu_power_w),
        .mean_cpu_percent = duration_sec > 0 ? 100 * cpu_seconds / duration_sec : REAL_UNKNOWN,
        .cpu_seconds = cpu_seconds,
    };
}
