/* The GPUs of a machine that has none: a fake driver library, and a recorded sysfs. */
#include "unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "gpu-world.h"
#include "lib-world.h"
#include "probe/gpu/gpu.h"

static const unsigned nvml_alone = GPU_SOURCE_BIT(GPU_SOURCE_NVML);

static int with_fake(void **state)
{
    unsetenv("FAKE_NVML");
    unsetenv("FAKE_NVML_FILE");
    return gpu_world_make(state);
}

static struct gpu_set *open_set(const struct gpu_world *world, unsigned sources)
{
    struct gpu_set *set = NULL;
    const char *reason = NULL;

    assert_int_equal(gpu_set_new(&world->roots, sources, &set, &reason), 0);
    return set;
}

static void test_devices(void **state)
{
    struct gpu_set *set = open_set(*state, nvml_alone);
    struct gpu_metric metric;

    assert_int_equal(gpu_set_count(set), 3);
    assert_int_equal(gpu_set_read(set, 2, &metric), 0);
    assert_int_equal(metric.index, 2);
    assert_string_equal(metric.name, "Fake C, 24 GB");
    assert_string_equal(metric.vendor, "NVIDIA");
    assert_true(metric.utilization_pct == 32 && metric.temperature_c == 62);
    assert_true(metric.memory_used_mb == 3072 && metric.memory_total_mb == 24576);
    assert_true(metric.clock_mhz == 1502 && fabs(metric.power_w - 250.502) < 1e-9);
    /* a device that fails does not affect the others */
    assert_int_equal(gpu_set_read(set, 1, &metric), -ENODEV);
    assert_int_equal(gpu_set_read(set, 3, &metric), -ENODEV);
    assert_int_equal(gpu_set_read(set, 0, &metric), 0);
    gpu_set_free(set);
}

static void test_utilization_above_100_percent_is_unknown(void **state)
{
    struct gpu_set *set = open_set(*state, nvml_alone);
    struct gpu_metric metric;

    setenv("FAKE_NVML", "overdone", 1);
    assert_int_equal(gpu_set_read(set, 0, &metric), 0);
    assert_true(isnan(metric.utilization_pct) && metric.temperature_c == 60);
    gpu_set_free(set);
}

static void test_reason_for_no_gpu(void **state)
{
    static const struct {
        const char *way, *words;
    } cases[] = {
        {"none", "no device"},
        {"broken", "cannot be initialised"},
        {"mismatch", "driver differ"},
    };
    const struct gpu_world *world = *state;
    struct gpu_set *set = NULL;
    const char *reason = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        setenv("FAKE_NVML", cases[i].way, 1);
        assert_int_equal(gpu_set_new(&world->roots, GPU_SOURCES_ALL, &set, &reason), -ENODEV);
        assert_non_null(strstr(reason, cases[i].words));
    }
    gpu_set_free(NULL);
}

/* NVIDIA's GPUs come first; their cards in sysfs are not listed again. */
static void test_two_sources(void **state)
{
    const struct gpu_world *world = *state;
    struct gpu_metric metric;

    world_put_card(world, 0, "nvidia", "10DE:2204", "0000:09:00.0");
    world_put_radeon(world, 1);
    struct gpu_set *set = open_set(world, GPU_SOURCES_ALL);
    assert_int_equal(gpu_set_count(set), 4);
    assert_int_equal(gpu_set_read(set, 3, &metric), 0);
    assert_int_equal(metric.index, 3);
    assert_string_equal(metric.vendor, "AMD");
    gpu_set_free(set);

    setenv("FAKE_NVML", "broken", 1); /* the other source works */
    set = open_set(world, GPU_SOURCES_ALL);
    assert_int_equal(gpu_set_count(set), 1);
    assert_int_equal(gpu_set_read(set, 0, &metric), 0);
    assert_string_equal(metric.vendor, "AMD");
    gpu_set_free(set);
}

static void test_gpu_sources_are_found(void **state)
{
    const struct gpu_world *world = *state;

    assert_int_equal(gpu_sources_present(&world->roots), 0);
    world_put(world, "dev/nvidiactl", "%s", "");
    assert_int_equal(gpu_sources_present(&world->roots), 0); /* its devices have no nodes yet */
    world_put(world, "dev/nvidia0", "%s", "");
    world_put(world, "dev/nvidia1", "%s", "");
    world_put(world, "dev/nvidia3", "%s", "");
    assert_int_equal(gpu_sources_present(&world->roots), GPU_SOURCE_BIT(GPU_SOURCE_NVML));
    assert_int_equal(gpu_nvidia_nodes(&world->roots), 2);
    world_put_i915(world, 0);
    assert_int_equal(gpu_sources_present(&world->roots), GPU_SOURCES_ALL);
    world_drop(world, "dev");
    assert_int_equal(gpu_sources_present(&world->roots), GPU_SOURCE_BIT(GPU_SOURCE_DRM));
    assert_int_equal(gpu_nvidia_nodes(&world->roots), 0);
}

/* ---- processes ---- */

static void use_file(const struct gpu_world *world, const char *text)
{
    char path[64];

    world_put(world, "nvml", "%s", text);
    snprintf(path, sizeof(path), "%s/nvml", world->dir);
    setenv("FAKE_NVML_FILE", path, 1);
}

static int64_t bytes_of(const struct gpu_reading *reading, pid_t pid)
{
    const struct gpu_process *found = gpu_reading_find(reading, pid, (uint64_t)pid);

    return found ? found->memory_bytes : -1;
}

/* In every layout: the sum over all devices; a process with compute and graphics counts once. */
static void test_processes(void **state)
{
    static const char *const layouts[] = {"", "wide", "narrow"};
    const struct gpu_world *world = *state;
    char text[512];

    for (pid_t pid = 100; pid < 106; pid++)
        world_put_process(world, pid, (uint64_t)pid);
    for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
        snprintf(text, sizeof(text),
                 "%s\ncompute 0 100 1000\ncompute 0 101 5\ncompute 2 100 200\n"
                 "compute 0 102 -1\ncompute 0 4000 7\ngraphics 0 100 1000\n"
                 "graphics 2 103 30\ngraphics 2 105 50\ncompute 1 104 9\n",
                 layouts[i]);
        use_file(world, text);
        struct gpu_set *set = open_set(world, nvml_alone);
        struct gpu_reading *reading = NULL;
        for (int turn = 0; turn < 2; turn++) { /* the first time measures the size of an entry */
            assert_int_equal(gpu_set_read_all(set, &reading), 0);
            assert_int_equal(reading->gpus.count, 2);
            assert_int_equal(reading->processes.count, 4);
            assert_int_equal(bytes_of(reading, 100), 1200);
            assert_int_equal(bytes_of(reading, 101), 5);
            assert_int_equal(bytes_of(reading, 103), 30);
            assert_int_equal(bytes_of(reading, 105), 50);
            gpu_reading_free(reading);
        }
        gpu_set_free(set);
    }
}

/* One process does not show the size of an entry. */
static void test_layout_by_two(void **state)
{
    const struct gpu_world *world = *state;
    struct gpu_reading *reading = NULL;

    for (pid_t pid = 100; pid < 103; pid++)
        world_put_process(world, pid, (uint64_t)pid);
    use_file(world, "sparing\ncompute 0 100 7\n");
    struct gpu_set *set = open_set(world, nvml_alone);
    assert_int_equal(gpu_set_read_all(set, &reading), 0);
    assert_int_equal(reading->processes.count, 1);
    assert_int_equal(bytes_of(reading, 100), 7);
    gpu_reading_free(reading);
    use_file(world, "sparing\ncompute 0 100 7\ncompute 0 101 8\ncompute 0 102 9\n");
    assert_int_equal(gpu_set_read_all(set, &reading), 0);
    assert_int_equal(reading->processes.count, 3);
    assert_int_equal(bytes_of(reading, 101), 8);
    assert_int_equal(bytes_of(reading, 102), 9);
    gpu_reading_free(reading);
    gpu_set_free(set);
}

static void test_many_processes(void **state)
{
    const struct gpu_world *world = *state;
    char text[8192] = "";
    struct gpu_reading *reading = NULL;

    for (pid_t pid = 1000; pid < 1200; pid++) {
        world_put_process(world, pid, (uint64_t)pid);
        sprintf(text + strlen(text), "compute 0 %d %d\n", (int)pid, (int)pid);
    }
    use_file(world, text);
    struct gpu_set *set = open_set(world, nvml_alone);
    assert_int_equal(gpu_set_read_all(set, &reading), 0);
    assert_int_equal(reading->processes.count, 200);
    assert_int_equal(bytes_of(reading, 1199), 1199);
    gpu_reading_free(reading);
    gpu_set_free(set);
}

/* ---- libsonde ---- */

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

    assert_true(sonde_gpu_count() >= 3); /* and this machine's own, behind them */
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

/* A driver that hangs: sampling continues, and the monitor can be stopped and freed. Its thread may
 * outlive the test, and reads the environment: no test that changes it comes after this one. */
static void test_stuck_driver(void **state)
{
    use_file(*state, "stuck\n");
    struct sonde_monitor *monitor = start_builtin(0);

    AWAIT(summary_of(monitor).num_samples > 10);
    sonde_monitor_stop(monitor);
    assert_false(sonde_is_known(summary_of(monitor).peak_gpu_mem_mb));
    sonde_monitor_free(monitor);
}

/* The same program once more with an old library, see meson.build. */
static void test_old_library(void **state)
{
    struct gpu_set *set = open_set(*state, nvml_alone);
    struct gpu_metric metric;

    assert_int_equal(gpu_set_read(set, 0, &metric), 0);
    assert_true(metric.utilization_pct == 30 && metric.memory_used_mb == 1024);
    assert_true(isnan(metric.clock_mhz) && isnan(metric.power_w));
    gpu_set_free(set);
}

#define WORLD_TEST(function) cmocka_unit_test_setup_teardown(function, with_fake, gpu_world_remove)

int main(int argc, char **argv _unused_)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_devices),
        WORLD_TEST(test_reason_for_no_gpu),
        WORLD_TEST(test_two_sources),
        WORLD_TEST(test_gpu_sources_are_found),
        WORLD_TEST(test_processes),
        WORLD_TEST(test_many_processes),
        WORLD_TEST(test_utilization_above_100_percent_is_unknown),
        WORLD_TEST(test_layout_by_two),
        WORLD_TEST(test_builtin_source),
        WORLD_TEST(test_stuck_driver),
    };
    const struct CMUnitTest old_tests[] = {
        WORLD_TEST(test_old_library),
        WORLD_TEST(test_processes),
    };
    if (argc > 1)
        return cmocka_run_group_tests_name("gpu-old", old_tests, NULL, NULL);
    return cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
