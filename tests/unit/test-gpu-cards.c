/* AMD's and Intel's GPUs: the figures of their drivers, and the load computed from clients. */
#include "gpu-clients-world.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "probe/gpu/drm-cards.h"

static struct drm_cards *open_cards(const struct gpu_world *world)
{
    struct drm_cards *cards = NULL;
    const char *reason = NULL;

    assert_int_equal(drm_cards_open(world->sys, world->proc, &cards, &reason), 0);
    return cards;
}

static struct gpu_metric read_card(struct drm_cards *cards, unsigned index, uint64_t mono_ns)
{
    struct gpu_metric gpu;

    assert_int_equal(drm_cards_read(cards, index, mono_ns, &gpu), 0);
    assert_int_equal(gpu.index, index);
    return gpu;
}

/* ---- sysfs ---- */

static void test_amd(void **state)
{
    const struct gpu_world *world = *state;

    world_put_radeon(world, 0);
    struct drm_cards *cards = open_cards(world);
    assert_int_equal(drm_cards_count(cards), 1);
    struct gpu_metric gpu = read_card(cards, 0, SECOND);
    assert_string_equal(gpu.vendor, "AMD");
    assert_string_equal(gpu.name, "amdgpu 1002:744C");
    assert_true(gpu.utilization_pct == 37 && gpu.memory_used_mb == 3072);
    assert_true(gpu.memory_total_mb == 20464 && gpu.temperature_c == 54.5);
    assert_true(fabs(gpu.clock_mhz - 2431) < 1e-9 && fabs(gpu.power_w - 118.25) < 1e-9);
    drm_cards_close(cards);
}

static void test_amd_newer_names(void **state)
{
    const struct gpu_world *world = *state;

    world_put_radeon(world, 0);
    world_put_figure(world, 0, "device/product_name", "AMD Instinct MI210");
    world_drop(world, "sys/class/drm/card0/device/hwmon/hwmon4/power1_average");
    world_put_figure(world, 0, "device/hwmon/hwmon4/power1_input", "99000000");
    struct drm_cards *cards = open_cards(world);
    struct gpu_metric gpu = read_card(cards, 0, SECOND);
    assert_string_equal(gpu.name, "AMD Instinct MI210");
    assert_true(fabs(gpu.power_w - 99) < 1e-9);
    drm_cards_close(cards);
}

static void test_intel_integrated(void **state)
{
    const struct gpu_world *world = *state;

    world_put_i915(world, 1);
    struct drm_cards *cards = open_cards(world);
    struct gpu_metric gpu = read_card(cards, 0, SECOND);
    assert_string_equal(gpu.vendor, "Intel");
    assert_true(gpu.clock_mhz == 1300);
    assert_true(isnan(gpu.memory_used_mb) && isnan(gpu.memory_total_mb));
    assert_true(isnan(gpu.temperature_c) && isnan(gpu.power_w));
    drm_cards_close(cards);
}

/* Power is energy over time: unknown at first, and after the counter has begun anew. */
static void test_intel_discrete(void **state)
{
    const struct gpu_world *world = *state;

    world_put_arc(world, 0);
    struct drm_cards *cards = open_cards(world);
    struct gpu_metric gpu = read_card(cards, 0, SECOND);
    assert_true(gpu.clock_mhz == 2400 && gpu.temperature_c == 61 && isnan(gpu.power_w));
    world_put_figure(world, 0, "device/hwmon/hwmon2/energy1_input", "45000000");
    gpu = read_card(cards, 0, 3 * SECOND);
    assert_true(fabs(gpu.power_w - 20) < 1e-9);
    gpu = read_card(cards, 0, 3 * SECOND + 1000); /* too soon for a rate */
    assert_true(fabs(gpu.power_w - 20) < 1e-9);
    world_put_figure(world, 0, "device/hwmon/hwmon2/energy1_input", "7");
    assert_true(isnan(read_card(cards, 0, 4 * SECOND).power_w));
    world_put_figure(world, 0, "device/hwmon/hwmon2/energy1_input", "8000007");
    assert_true(fabs(read_card(cards, 0, 5 * SECOND).power_w - 8) < 1e-9);
    drm_cards_close(cards);
}

/* Cards are in the order of their numbers, without those of NVIDIA's driver and those that only
 * display. */
static void test_several_cards(void **state)
{
    const struct gpu_world *world = *state;

    world_put_arc(world, 10);
    world_put_radeon(world, 2);
    world_put_card(world, 3, "nvidia", "10DE:2204", "0000:09:00.0");
    world_put_card(world, 4, "ast", "1A03:2000", "0000:0a:00.0");
    world_drop(world, "sys/class/drm/card4/device/drm");
    world_put_card(world, 1, "nouveau", "10DE:1C03", "0000:0b:00.0");
    world_put_card(world, 5, "panfrost", NULL, NULL);
    world_put(world, "sys/class/drm/card6/device/uevent", "MODALIAS=x\n"); /* no driver */
    world_put(world, "sys/class/drm/version", "drm 1.1.0 20060810\n");
    struct drm_cards *cards = open_cards(world);

    assert_int_equal(drm_cards_count(cards), 4);
    assert_string_equal(read_card(cards, 0, SECOND).vendor, "NVIDIA"); /* its driver is nouveau */
    assert_string_equal(read_card(cards, 1, SECOND).vendor, "AMD");
    assert_null(read_card(cards, 2, SECOND).vendor);
    assert_string_equal(read_card(cards, 2, SECOND).name, "panfrost");
    assert_string_equal(read_card(cards, 3, SECOND).vendor, "Intel");
    drm_cards_close(cards);
}

static void test_sleeping_card_is_not_read(void **state)
{
    const struct gpu_world *world = *state;

    world_put_radeon(world, 0);
    world_put_figure(world, 0, "device/power/runtime_status", "suspended");
    struct drm_cards *cards = open_cards(world);
    struct gpu_metric gpu = read_card(cards, 0, SECOND);
    assert_true(gpu.utilization_pct == 0);
    assert_true(isnan(gpu.memory_used_mb) && isnan(gpu.temperature_c) && isnan(gpu.power_w));
    drm_cards_close(cards);
}

static size_t count_processes(struct drm_cards *cards, uint64_t mono_ns)
{
    struct gpu_reading *reading = gpu_reading_new();

    assert_non_null(reading);
    assert_int_equal(drm_cards_read_processes(cards, mono_ns, reading), 0);
    size_t count = reading->processes.count;
    gpu_reading_free(reading);
    return count;
}

/* The fdinfo of its clients is not read either: that would wake the card. */
static void test_files_of_a_sleeping_card_are_not_read(void **state)
{
    const struct gpu_world *world = *state;

    world_put_radeon(world, 0);
    world_put_process(world, 100, 50);
    world_put_file(world, 100, 3, "/dev/dri/renderD128",
                   "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t1 MiB\n");
    struct drm_cards *cards = open_cards(world);
    assert_int_equal(count_processes(cards, SECOND), 1);
    world_put_figure(world, 0, "device/power/runtime_status", "suspended");
    assert_int_equal(count_processes(cards, 2 * SECOND), 0);
    world_put_figure(world, 0, "device/power/runtime_status", "active");
    assert_int_equal(count_processes(cards, 3 * SECOND), 1);
    drm_cards_close(cards);
}

static void test_invalid_figures_are_unknown(void **state)
{
    const struct gpu_world *world = *state;
    struct gpu_metric gpu;

    world_put_radeon(world, 0);
    world_put_i915(world, 1);
    world_put_figure(world, 0, "device/gpu_busy_percent", "250");
    world_put_figure(world, 0, "device/mem_info_vram_used", "lots");
    world_put_figure(world, 0, "device/mem_info_vram_total", "99999999999999999999999");
    world_put_figure(world, 0, "device/hwmon/hwmon4/temp1_input", "-5500");
    world_put_figure(world, 0, "device/hwmon/hwmon4/freq1_input", "");
    struct drm_cards *cards = open_cards(world);
    gpu = read_card(cards, 0, SECOND);
    assert_true(isnan(gpu.utilization_pct) && isnan(gpu.memory_used_mb));
    assert_true(isnan(gpu.memory_total_mb) && isnan(gpu.clock_mhz));
    assert_true(gpu.temperature_c == -5.5);
    world_drop(world, "sys/class/drm/card0"); /* the card was removed */
    assert_int_equal(drm_cards_read(cards, 0, SECOND, &gpu), -ENODEV);
    assert_int_equal(drm_cards_read(cards, 1, SECOND, &gpu), 0);
    assert_int_equal(drm_cards_read(cards, 2, SECOND, &gpu), -ENODEV);
    drm_cards_close(cards);
}

static void test_no_card(void **state)
{
    const struct gpu_world *world = *state;
    struct drm_cards *cards = NULL;
    const char *reason = NULL;

    assert_false(drm_cards_exist(world->sys));
    assert_false(drm_cards_exist("/nowhere"));
    assert_int_equal(drm_cards_open(world->sys, world->proc, &cards, &reason), -ENODEV);
    assert_non_null(strstr(reason, "/sys/class/drm"));
    world_put(world, "sys/class/drm/card0/device/uevent", "DRIVER=ast\n");
    assert_true(drm_cards_exist(world->sys)); /* known only after opening */
    assert_int_equal(drm_cards_open(world->sys, world->proc, &cards, &reason), -ENODEV);
    assert_null(cards);
}

/* ---- busy ---- */

static double busy_at(struct drm_cards *cards, uint64_t mono_ns)
{
    return read_card(cards, 0, mono_ns).utilization_pct;
}

static bool is_about(double value, double expected)
{
    return fabs(value - expected) < 0.5;
}

/* The busiest engine, over all clients; a client that several processes hold counts once. */
static void test_load_by_engine_time(void **state)
{
    const struct gpu_world *world = *state;

    world_put_i915(world, 0);
    world_put_process(world, 100, 50);
    world_put_process(world, 101, 60);
    world_put_file(world, 100, 5, "/dev/dri/renderD128", I915_CLIENT(1, 1000, 0, 10));
    world_put_file(world, 101, 7, "/dev/dri/card0", I915_CLIENT(2, 0, 5, 20));
    struct drm_cards *cards = open_cards(world);

    assert_true(isnan(busy_at(cards, 10 * AGE))); /* a rate needs two readings */
    world_put_file(world, 100, 5, "/dev/dri/renderD128", I915_CLIENT(1, 1400, 0, 10));
    world_put_file(world, 101, 7, "/dev/dri/card0", I915_CLIENT(2, 200, 1005, 20));
    assert_true(is_about(busy_at(cards, 12 * AGE), 30)); /* 400 + 200 s of 2000 s */
    world_put_file(world, 101, 7, "/dev/dri/card0", I915_CLIENT(2, 200, 9005, 20));
    assert_true(is_about(busy_at(cards, 16 * AGE), 100)); /* 8 s in 4 s, by two engines */

    /* the same file in a child counts once; a counter that decreases does not lower the load */
    world_put_process(world, 102, 70);
    world_put_file(world, 102, 5, "/dev/dri/renderD128", I915_CLIENT(1, 1300, 0, 10));
    world_put_file(world, 100, 5, "/dev/dri/renderD128", I915_CLIENT(1, 1300, 0, 10));
    assert_true(busy_at(cards, 22 * AGE) == 0);
    world_put_file(world, 100, 5, "/dev/dri/renderD128", I915_CLIENT(1, 2400, 0, 10));
    world_put_file(world, 102, 5, "/dev/dri/renderD128", I915_CLIENT(1, 2400, 0, 10));
    assert_true(is_about(busy_at(cards, 24 * AGE), 50));
    drm_cards_close(cards);
}

static void test_load_by_cycles(void **state)
{
    static const char format[] = "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:04:00.0\n"
                                 "drm-cycles-rcs:\t%d\ndrm-total-cycles-rcs:\t%d\n"
                                 "drm-cycles-ccs:\t%d\ndrm-total-cycles-ccs:\t%d\n"
                                 "drm-engine-capacity-ccs:\t4\n";
    const struct gpu_world *world = *state;
    char text[512];

    world_put_arc(world, 0);
    world_put_process(world, 100, 50);
    snprintf(text, sizeof(text), format, 0, 1000, 0, 1000);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", text);
    struct drm_cards *cards = open_cards(world);
    busy_at(cards, SECOND);
    snprintf(text, sizeof(text), format, 100, 2000, 3000, 2000);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", text);
    assert_true(fabs(busy_at(cards, 2 * SECOND) - 75) < 1e-9); /* 3000 in 1000, by four engines */
    assert_true(fabs(busy_at(cards, 2 * SECOND + 5) - 75) < 1e-9); /* too soon for an update */
    drm_cards_close(cards);
}

/* Without a PCI address, the device node identifies the card; the driver may have another name in
 * fdinfo. */
static void test_load_by_device_node(void **state)
{
    static const char format[] =
        "drm-driver:\tmsm\ndrm-client-id:\t%d\ndrm-engine-gpu:\t%d000000000 ns\n";
    const struct gpu_world *world = *state;
    char text[256];

    world_put_card(world, 0, "msm_dpu", NULL, NULL); /* renderD128 */
    world_put_card(world, 1, "panfrost", NULL, NULL);
    world_put_process(world, 100, 50);
    snprintf(text, sizeof(text), format, 1, 0);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", text);
    snprintf(text, sizeof(text), format, 2, 0);
    world_put_file(world, 100, 5, "/dev/dri/card0", text);
    struct drm_cards *cards = open_cards(world);
    busy_at(cards, AGE);
    snprintf(text, sizeof(text), format, 1, 500);
    world_put_file(world, 100, 4, "/dev/dri/renderD128", text);
    snprintf(text, sizeof(text), format, 2, 250);
    world_put_file(world, 100, 5, "/dev/dri/card0", text);
    assert_true(is_about(busy_at(cards, 2 * AGE), 75));
    assert_true(read_card(cards, 1, 2 * AGE).utilization_pct == 0);
    drm_cards_close(cards);
}

/* Idle without clients; unknown if the driver does not report the load. */
static void test_idle_or_unknown_load(void **state)
{
    const struct gpu_world *world = *state;

    world_put_i915(world, 0);
    world_put_process(world, 100, 50);
    struct drm_cards *cards = open_cards(world);
    busy_at(cards, SECOND);
    assert_true(busy_at(cards, 2 * SECOND) == 0);
    world_put_file(world, 100, 4, "/dev/dri/card0",
                   "drm-driver:\ti915\ndrm-client-id:\t1\ndrm-pdev:\t0000:00:02.0\n");
    busy_at(cards, 10 * SECOND);
    assert_true(isnan(busy_at(cards, 11 * SECOND)));
    /* a client of another card */
    world_put_file(world, 100, 4, "/dev/dri/card1",
                   "drm-driver:\ti915\ndrm-client-id:\t1\ndrm-pdev:\t0000:07:00.0\n");
    busy_at(cards, 20 * SECOND);
    assert_true(busy_at(cards, 21 * SECOND) == 0);
    drm_cards_close(cards);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(test_amd),
        WORLD_TEST(test_amd_newer_names),
        WORLD_TEST(test_intel_integrated),
        WORLD_TEST(test_intel_discrete),
        WORLD_TEST(test_several_cards),
        WORLD_TEST(test_sleeping_card_is_not_read),
        WORLD_TEST(test_files_of_a_sleeping_card_are_not_read),
        WORLD_TEST(test_invalid_figures_are_unknown),
        WORLD_TEST(test_no_card),
        WORLD_TEST(test_load_by_engine_time),
        WORLD_TEST(test_load_by_cycles),
        WORLD_TEST(test_load_by_device_node),
        WORLD_TEST(test_idle_or_unknown_load),
    };
    return cmocka_run_group_tests_name("gpu-cards", tests, NULL, NULL);
}
