/* The GPUs of a machine that has none: a fake driver library, and a recorded sysfs. */
#include "unit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/macros.h"
#include "lib-world.h"
#include "probe/gpu/gpu.h"

static int with_fake(void **state _unused_)
{
    unsetenv("FAKE_NVML");
    return 0;
}

static struct gpu_set *open_set(void)
{
    struct gpu_set *set = NULL;

    assert_int_equal(gpu_set_new(&set), 0);
    return set;
}

static void test_devices(void **state _unused_)
{
    struct gpu_set *set = open_set();
    struct gpu_metric metric;

    assert_int_equal(gpu_set_count(set), 3);
    assert_int_equal(gpu_set_read(set, 2, &metric), 0);
    assert_int_equal(metric.index, 2);
    assert_true(metric.utilization_pct == 32 && metric.temperature_c == 62);
    assert_true(metric.memory_used_mb == 3072 && metric.memory_total_mb == 24576);
    assert_true(metric.clock_mhz == 1502 && fabs(metric.power_w - 250.502) < 1e-9);
    /* one that fails does not spoil the others */
    assert_int_equal(gpu_set_read(set, 1, &metric), -ENODEV);
    assert_int_equal(gpu_set_read(set, 3, &metric), -ENODEV);
    assert_int_equal(gpu_set_read(set, 0, &metric), 0);
    gpu_set_free(set);
}

static void test_none(void **state _unused_)
{
    static const char *const ways[] = {"none", "broken"};
    struct gpu_set *set = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        setenv("FAKE_NVML", ways[i], 1);
        assert_int_equal(gpu_set_new(&set), -ENODEV);
        assert_int_equal(sonde_gpu_count(), 0);
    }
    gpu_set_free(NULL);
}

static struct sonde_monitor *start_builtin(unsigned index)
{
    struct sonde_options options = SONDE_OPTIONS_INIT;

    options.interval_sec = 0.01;
    options.flags = SONDE_BUILTIN_GPU;
    options.gpu_index = index;
    struct sonde_monitor *monitor = new_monitor(&options);
    assert_int_equal(sonde_monitor_start(monitor, NULL), 0);
    return monitor;
}

static void test_builtin_source(void **state _unused_)
{
    struct sonde_monitor *monitor = start_builtin(2);

    assert_int_equal(sonde_gpu_count(), 3);
    AWAIT(sonde_is_known(summary_of(monitor).mean_gpu_power_w));
    sonde_monitor_stop(monitor);
    struct sonde_summary summary = summary_of(monitor);
    assert_true(summary.mean_gpu_util == 32 && summary.peak_gpu_mem_mb == 3072);
    assert_true(summary.mean_gpu_clock_mhz == 1502);
    sonde_monitor_free(monitor);

    monitor = start_builtin(7); /* no such device: unknown, not a failure */
    sonde_monitor_stop(monitor);
    assert_false(sonde_is_known(summary_of(monitor).mean_gpu_util));
    sonde_monitor_free(monitor);
}

/* A driver that hangs: samples go on, and the monitor can be stopped and freed. */
static void test_stuck_driver(void **state _unused_)
{
    setenv("FAKE_NVML", "stuck", 1);
    struct sonde_monitor *monitor = start_builtin(0);

    AWAIT(summary_of(monitor).num_samples > 10);
    sonde_monitor_stop(monitor);
    assert_false(sonde_is_known(summary_of(monitor).peak_gpu_mem_mb));
    sonde_monitor_free(monitor);
}

/* The same program once more with an old library, see meson.build. */
static void test_old_library(void **state _unused_)
{
    struct gpu_set *set = open_set();
    struct gpu_metric metric;

    assert_int_equal(gpu_set_read(set, 0, &metric), 0);
    assert_true(metric.utilization_pct == 30 && metric.memory_used_mb == 1024);
    assert_true(isnan(metric.clock_mhz) && isnan(metric.power_w));
    gpu_set_free(set);
}

int main(int argc, char **argv _unused_)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_devices, with_fake),
        cmocka_unit_test_setup(test_none, with_fake),
        cmocka_unit_test_setup(test_builtin_source, with_fake),
        cmocka_unit_test_setup(test_stuck_driver, with_fake),
    };
    const struct CMUnitTest old_tests[] = {
        cmocka_unit_test_setup(test_old_library, with_fake),
    };
    if (argc > 1)
        return cmocka_run_group_tests_name("gpu-old", old_tests, NULL, NULL);
    return cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
