#include "lib/series.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/field.h"

int series_init(struct series *series, size_t capacity)
{
    struct sonde_sample *kept = calloc((capacity + 1) / 2, 2 * sizeof(*kept));
    if (!kept)
        return -ENOMEM;
    *series = (struct series){.kept = kept, .capacity = (capacity + 1) / 2 * 2, .stride = 1};
    return 0;
}

void series_done(struct series *series)
{
    free(series->kept);
    *series = (struct series){0};
}

void series_clear(struct series *series)
{
    series->count = series->pending_count = 0;
    series->stride = 1;
}

/* The mean of two means of `a_count` and `b_count` values; if only one is known, that one. Neither
 * is negative, so the difference is finite, while the sum may overflow. */
static double mean_of(double a, uint64_t a_count, double b, uint64_t b_count)
{
    if (!real_is_known(a))
        return b;
    if (!real_is_known(b))
        return a;
    return a + (b - a) * ((double)b_count / (double)(a_count + b_count));
}

/* The result has the time and memory of the sample with more memory, so that peaks stay where they
 * were. */
static struct sonde_sample merge(const struct sonde_sample *a, uint64_t a_count,
                                 const struct sonde_sample *b, uint64_t b_count)
{
    struct sonde_sample merged = b->rss_mb > a->rss_mb || !real_is_known(a->rss_mb) ? *b : *a;

    merged.cpu_percent = mean_of(a->cpu_percent, a_count, b->cpu_percent, b_count);
    merged.gpu_util = mean_of(a->gpu_util, a_count, b->gpu_util, b_count);
    merged.gpu_clock_mhz = mean_of(a->gpu_clock_mhz, a_count, b->gpu_clock_mhz, b_count);
    merged.gpu_power_w = mean_of(a->gpu_power_w, a_count, b->gpu_power_w, b_count);
    merged.gpu_mem_mb = fmax(a->gpu_mem_mb, b->gpu_mem_mb);
    return merged;
}

static void halve(struct series *series)
{
    series->count /= 2;
    for (size_t i = 0; i < series->count; i++)
        series->kept[i] = merge(&series->kept[2 * i], 1, &series->kept[2 * i + 1], 1);
    series->stride *= 2;
}

void series_add(struct series *series, const struct sonde_sample *sample)
{
    if (series->pending_count == 0 && series->count == series->capacity)
        halve(series);
    series->pending =
        series->pending_count ? merge(&series->pending, series->pending_count, sample, 1) : *sample;
    if (++series->pending_count < series->stride)
        return;
    series->kept[series->count++] = series->pending;
    series->pending_count = 0;
}

size_t series_count(const struct series *series)
{
    return series->count + (series->pending_count > 0);
}

void series_copy(const struct series *series, struct sonde_sample *into)
{
    memcpy(into, series->kept, series->count * sizeof(*into));
    if (series->pending_count)
        into[series->count] = series->pending;
}
