/* Every allocation between drivers, cards or the output of nvidia-smi and a reading fails once, and
 * then all from it on: an error is returned, or less is known; nothing crashes or leaks (under
 * ASan). Linked with -Wl,--wrap for the allocators. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "failing-allocator.h"
#include "gpu-world.h"
#include "probe/gpu/nvidia-smi.h"

static const struct gpu_world *world;

static int read_drivers(void)
{
    struct gpu_set *set = NULL;
    const char *reason = NULL;

    int r = gpu_set_new(&world->roots, GPU_SOURCES_ALL, &set, &reason);
    for (int i = 0; i < 2 && r == 0; i++) {
        _cleanup_(gpu_reading_freep) struct gpu_reading *reading = NULL;
        r = gpu_set_read_all(set, &reading);
        if (r == 0)
            assert_true(reading->gpus.count <= 4 && reading->processes.count <= 2);
    }
    gpu_set_free(set);
    return r;
}

static int parse_smi_output(void)
{
    static const char gpus[] = "0, 1, 2, 3, 4, 5, 6, first\n1, 1, 2, 3, 4, 5, 6, second\n";
    static const char apps[] = "100, 5\n101, 6\n";
    _cleanup_(gpu_reading_freep) struct gpu_reading *reading = gpu_reading_new();

    if (!reading)
        return -ENOMEM;
    int r = nvidia_smi_gpus_parse(gpus, strlen(gpus), reading);
    return r < 0 ? r : nvidia_smi_apps_parse(apps, strlen(apps), reading);
}

static int make(void **state)
{
    int r = gpu_world_make(state);

    world = *state;
    if (r < 0)
        return r;
    world_put_radeon(world, 0);
    world_put_i915(world, 1);
    world_put_process(world, 100, 50);
    world_put_process(world, 101, 60);
    world_put_file(world, 100, 3, "/dev/dri/renderD128",
                   "drm-driver:\ti915\ndrm-client-id:\t1\ndrm-pdev:\t0000:00:02.0\n"
                   "drm-resident-system0:\t5 MiB\ndrm-engine-render:\t5 ns\n");
    world_put(world, "nvml", "compute 0 101 5\n");
    char path[64];
    snprintf(path, sizeof(path), "%s/nvml", world->dir);
    return setenv("FAKE_NVML_FILE", path, 1);
}

static void test_each_allocation_fails_once(void **state _unused_)
{
    fail_each_allocation(read_drivers, false, 12);
    fail_each_allocation(parse_smi_output, false, 4);
}

static void test_all_allocations_fail_from_each_on(void **state _unused_)
{
    fail_each_allocation(read_drivers, true, 12);
    fail_each_allocation(parse_smi_output, true, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_allocation_fails_once, make, gpu_world_remove),
        cmocka_unit_test_setup_teardown(test_all_allocations_fail_from_each_on, make,
                                        gpu_world_remove),
    };
    return cmocka_run_group_tests_name("gpu-allocation", tests, NULL, NULL);
}
