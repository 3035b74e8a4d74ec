/* Which samples are kept, and how they are summed up; without clock and processes. */
#include "unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "lib/series.h"
#include "lib/window.h"

#define MB 1048576

static struct sonde_sample sample_of(double timestamp, double rss_mb)
{
    return (struct sonde_sample){.timestamp = timestamp,
                                 .cpu_percent = REAL_UNKNOWN,
                                 .rss_mb = rss_mb,
                                 .gpu_util = REAL_UNKNOWN,
                                 .gpu_mem_mb = REAL_UNKNOWN,
                                 .gpu_clock_mhz = REAL_UNKNOWN,
                                 .gpu_power_w = REAL_UNKNOWN};
}

/* `count` samples a second apart, the `peak`-th of them with 1000 MiB, the others with 10. */
static void fill(struct series *series, size_t count, size_t peak)
{
    for (size_t i = 0; i < count; i++) {
        struct sonde_sample sample = sample_of((double)i, i == peak ? 1000 : 10);
        sample.cpu_percent = i % 2 ? 100 : 50;
        sample.gpu_mem_mb = (double)i;
        series_add(series, &sample);
    }
}

static void assert_in_order(const struct sonde_sample *samples, size_t count)
{
    for (size_t i = 1; i < count; i++)
        assert_true(samples[i].timestamp > samples[i - 1].timestamp);
}

static void test_number_of_samples_is_bounded(void **state _unused_)
{
    struct series series;
    struct sonde_sample samples[16];

    for (size_t count = 1; count < 1000; count += 7) {
        assert_int_equal(series_init(&series, 16), 0);
        fill(&series, count, count / 2);
        size_t kept = series_count(&series);
        assert_true(count <= 16 ? kept == count : kept > 8 && kept <= 16);
        series_copy(&series, samples);
        assert_in_order(samples, kept);

        double highest = 0;
        for (size_t i = 0; i < kept; i++)
            highest = fmax(highest, samples[i].rss_mb);
        assert_true(highest == 1000); /* a peak is never thinned out */
        assert_true(samples[kept - 1].gpu_mem_mb == (double)(count - 1));
        series_done(&series);
    }
}

static void test_pairs_are_merged(void **state _unused_)
{
    struct series series;
    struct sonde_sample samples[17];

    assert_int_equal(series_init(&series, 16), 0);
    fill(&series, 32, 5);
    assert_int_equal(series.stride, 2);
    assert_int_equal(series_count(&series), 16);
    series_copy(&series, samples);
    for (size_t i = 0; i < 16; i++) {
        assert_true(samples[i].cpu_percent == 75);
        /* of an equal pair the first is kept; the peak is the second of its pair */
        assert_true(samples[i].timestamp == (i == 2 ? 5 : 2 * (double)i));
    }
    fill(&series, 1, 0);
    assert_int_equal(series.stride, 4);
    assert_int_equal(series_count(&series), 9);

    series_clear(&series);
    assert_int_equal(series_count(&series), 0);
    fill(&series, 3, 0);
    assert_int_equal(series_count(&series), 3);
    series_done(&series);
}

static void test_unknown_in_merge(void **state _unused_)
{
    struct series series;
    struct sonde_sample samples[17];

    assert_int_equal(series_init(&series, 16), 0);
    for (int i = 0; i < 32; i++) {
        struct sonde_sample sample = sample_of(i, i % 2 ? 4 : REAL_UNKNOWN);
        sample.gpu_util = i % 4 ? REAL_UNKNOWN : 30;
        series_add(&series, &sample);
    }
    series_copy(&series, samples);
    for (int i = 0; i < 16; i++) {
        assert_true(samples[i].rss_mb == 4);
        assert_true(i % 2 ? isnan(samples[i].gpu_util) : samples[i].gpu_util == 30);
        assert_true(isnan(samples[i].cpu_percent));
    }
    series_done(&series);
}

/* ---- windows ---- */

static struct target_reading look_of(double seconds, double cpu_seconds, int64_t rss_mb,
                                     int64_t risen_mb)
{
    return (struct target_reading){.mono_ns = (uint64_t)(seconds * 1e9),
                                   .cpu_ns = (int64_t)(cpu_seconds * 1e9),
                                   .rss_bytes = rss_mb * MB,
                                   .risen_bytes = risen_mb ? risen_mb * MB : INT_UNKNOWN};
}

static void add(struct window *window, struct target_reading reading)
{
    const struct gpu_figures none = GPU_FIGURES_UNKNOWN;
    window_add(window, &reading, &none);
}

static void test_no_sample(void **state _unused_)
{
    struct window window;
    struct sonde_summary summary;

    window_init(&window);
    window_sum_up(&window, &summary);
    assert_true(summary.peak_rss_mb == 0 && summary.mean_rss_mb == 0);
    assert_true(summary.memory_growth_mb == 0 && summary.duration_sec == 0);
    assert_true(summary.num_samples == 0 && summary.cpu_seconds == 0);
    assert_true(isnan(summary.peak_gpu_mem_mb) && isnan(summary.mean_gpu_util));
    assert_true(isnan(summary.mean_gpu_clock_mhz) && isnan(summary.mean_gpu_power_w));
    assert_true(isnan(summary.mean_cpu_percent));
}

static void test_one_sample(void **state _unused_)
{
    struct window window;
    struct sonde_summary summary;

    window_init(&window);
    add(&window, look_of(100, 5, 64, 900));
    window_sum_up(&window, &summary);
    /* a rise before the window does not count */
    assert_true(summary.peak_rss_mb == 64 && summary.mean_rss_mb == 64);
    assert_true(summary.memory_growth_mb == 0 && summary.duration_sec == 0);
    assert_true(summary.num_samples == 1 && summary.cpu_seconds == 0);
    assert_true(isnan(summary.mean_cpu_percent));
}

static void test_summary_of_a_window(void **state _unused_)
{
    struct window window;
    struct sonde_summary summary;

    window_init(&window);
    add(&window, look_of(100, 5, 64, 0));
    add(&window, look_of(101, 5.5, 128, 700));
    add(&window, look_of(104, 7, 32, 0));
    window_sum_up(&window, &summary);
    assert_true(summary.peak_rss_mb == 700);
    assert_true(fabs(summary.mean_rss_mb - (64 + 128 + 32) / 3.0) < 1e-9);
    assert_true(summary.memory_growth_mb == -32);
    assert_true(summary.duration_sec == 4 && summary.num_samples == 3);
    assert_true(summary.cpu_seconds == 2 && summary.mean_cpu_percent == 50);
}

static void test_gpu_means_skip_unknown(void **state _unused_)
{
    static const struct gpu_figures figures[] = {
        {50, 1000, 1500, 200}, {NAN, NAN, NAN, NAN}, {100, 3000, NAN, 300}, {NAN, 2000, NAN, NAN}};
    struct window window;
    struct sonde_summary summary;

    window_init(&window);
    for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
        struct target_reading reading = look_of((double)i, 0, 1, 0);
        window_add(&window, &reading, &figures[i]);
    }
    window_sum_up(&window, &summary);
    assert_true(summary.mean_gpu_util == 75 && summary.peak_gpu_mem_mb == 3000);
    assert_true(summary.mean_gpu_clock_mhz == 1500 && summary.mean_gpu_power_w == 250);
}

/* The largest doubles: the sum of two is infinite, their mean is not. */
static void test_means_stay_finite(void **state _unused_)
{
    const struct gpu_figures gpu = {DBL_MAX, DBL_MAX, DBL_MAX, DBL_MAX};
    struct sonde_sample samples[16];
    struct window window;
    struct series series;
    struct sonde_summary summary;

    window_init(&window);
    assert_int_equal(series_init(&series, 16), 0);
    for (int i = 0; i < 100; i++) {
        struct target_reading reading = look_of(i, 0, 1, 0);
        struct sonde_sample sample = sample_of(i, 1);
        window_add(&window, &reading, &gpu);
        sample.gpu_util = sample.gpu_clock_mhz = sample.gpu_power_w = i % 3 ? DBL_MAX : 0;
        series_add(&series, &sample);
    }
    window_sum_up(&window, &summary);
    assert_true(summary.mean_gpu_util == DBL_MAX && summary.peak_gpu_mem_mb == DBL_MAX);
    assert_true(summary.mean_gpu_clock_mhz == DBL_MAX && summary.mean_gpu_power_w == DBL_MAX);
    series_copy(&series, samples);
    for (size_t i = 0; i < series_count(&series); i++) {
        assert_true(samples[i].gpu_util > 0 && samples[i].gpu_util <= DBL_MAX);
        assert_true(samples[i].gpu_clock_mhz <= DBL_MAX && samples[i].gpu_power_w <= DBL_MAX);
    }
    series_done(&series);
}

/* Final figures may become known after the last sample. */
static void test_rest_after_the_last_sample(void **state _unused_)
{
    struct window window;
    struct sonde_summary summary;
    struct target_reading rest = {.mono_ns = 0,
                                  .cpu_ns = INT64_C(9000000000),
                                  .rss_bytes = INT_UNKNOWN,
                                  .risen_bytes = INT64_C(500) * MB};

    window_init(&window);
    add(&window, look_of(100, 5, 64, 0));
    add(&window, look_of(102, 7, 64, 0));
    window_add_rest(&window, &rest);
    window_sum_up(&window, &summary);
    assert_true(summary.cpu_seconds == 4 && summary.peak_rss_mb == 500);
    assert_true(summary.num_samples == 2 && summary.duration_sec == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_of_samples_is_bounded),
        cmocka_unit_test(test_pairs_are_merged),
        cmocka_unit_test(test_unknown_in_merge),
        cmocka_unit_test(test_no_sample),
        cmocka_unit_test(test_one_sample),
        cmocka_unit_test(test_summary_of_a_window),
        cmocka_unit_test(test_gpu_means_skip_unknown),
        cmocka_unit_test(test_means_stay_finite),
        cmocka_unit_test(test_rest_after_the_last_sample),
    };
    return cmocka_run_group_tests_name("lib-series", tests, NULL, NULL);
}
