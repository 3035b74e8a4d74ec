/* Parsers of GPU figures: fdinfo of all drivers, uevent, CSV of nvidia-smi. */
#include "parse.h"

#include <math.h>
#include <stdio.h>

#include "base/macros.h"
#include "probe/gpu/drm-fdinfo.h"
#include "probe/gpu/drm-uevent.h"
#include "probe/gpu/nvidia-smi.h"

/* ---- fdinfo ---- */

static const struct drm_engine *engine_of(const struct drm_fdinfo *info, const char *name)
{
    for (size_t i = 0; i < info->engine_count; i++)
        if (strcmp(info->engines[i].name, name) == 0)
            return &info->engines[i];
    fail_msg("no engine %s", name);
    return NULL;
}

static void test_fdinfo_of_amdgpu(void **state _unused_)
{
    static const char text[] = "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t1093\n"
                               "drm-driver:\tamdgpu\ndrm-client-id:\t241\n"
                               "drm-pdev:\t0000:03:00.0\npasid:\t32791\n"
                               "drm-total-vram:\t1264 MiB\ndrm-shared-vram:\t32 MiB\n"
                               "drm-active-vram:\t64 MiB\ndrm-resident-vram:\t1200 MiB\n"
                               "drm-resident-gtt:\t33284 KiB\ndrm-resident-cpu:\t0\n"
                               "amd-evicted-vram:\t0 KiB\ndrm-memory-vram:\t1228800 KiB\n"
                               "drm-engine-gfx:\t73922361 ns\ndrm-engine-compute:\t500 ns\n";
    struct drm_fdinfo info;

    assert_int_equal(PARSE(drm_fdinfo_parse, text, &info), 0);
    assert_string_equal(info.driver, "amdgpu");
    assert_string_equal(info.pdev, "0000:03:00.0");
    assert_int_equal(info.client_id, 241);
    assert_int_equal(info.engine_count, 2);
    assert_int_equal(engine_of(&info, "gfx")->busy_ns, 73922361);
    assert_int_equal(engine_of(&info, "compute")->capacity, 1);
    assert_int_equal(drm_fdinfo_memory_bytes(&info), INT64_C(1200) << 20);
}

static void test_fdinfo_of_i915(void **state _unused_)
{
    static const char integrated[] = "drm-driver:\ti915\ndrm-client-id:\t7\n"
                                     "drm-pdev:\t0000:00:02.0\ndrm-total-system0:\t53668 KiB\n"
                                     "drm-resident-system0:\t50 MiB\n"
                                     "drm-total-stolen-system0:\t0\n"
                                     "drm-engine-render:\t25662044495 ns\n"
                                     "drm-engine-video:\t10 ns\ndrm-engine-capacity-video:\t2\n";
    static const char discrete[] = "drm-driver:\ti915\ndrm-resident-system0:\t50 MiB\n"
                                   "drm-resident-local0:\t7 MiB\n";
    struct drm_fdinfo info;

    assert_int_equal(PARSE(drm_fdinfo_parse, integrated, &info), 0);
    assert_int_equal(engine_of(&info, "video")->capacity, 2);
    assert_int_equal(engine_of(&info, "video")->busy_ns, 10);
    /* the GPU has no own memory */
    assert_int_equal(drm_fdinfo_memory_bytes(&info), INT64_C(50) << 20);
    assert_int_equal(PARSE(drm_fdinfo_parse, discrete, &info), 0);
    assert_false(int_is_known(info.client_id));
    assert_int_equal(drm_fdinfo_memory_bytes(&info), INT64_C(7) << 20);
}

static void test_fdinfo_of_xe_and_panfrost(void **state _unused_)
{
    static const char xe[] = "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\n"
                             "drm-total-gtt:\t192 KiB\ndrm-resident-gtt:\t192 KiB\n"
                             "drm-total-vram0:\t23992 KiB\ndrm-resident-vram0:\t23992 KiB\n"
                             "drm-cycles-rcs:\t28257900\ndrm-total-cycles-rcs:\t7655183225\n"
                             "drm-cycles-ccs:\t0\ndrm-total-cycles-ccs:\t7655183225\n"
                             "drm-engine-capacity-ccs:\t4\n";
    static const char panfrost[] = "drm-driver:     panfrost\ndrm-client-id:  14\n"
                                   "drm-engine-fragment:    1846584880 ns\n"
                                   "drm-cycles-fragment:    1424359409\n"
                                   "drm-maxfreq-fragment:   799999987 Hz\n"
                                   "drm-total-memory:       290 MiB\n"
                                   "drm-resident-memory:    36496 KiB\n";
    struct drm_fdinfo info;

    assert_int_equal(PARSE(drm_fdinfo_parse, xe, &info), 0);
    assert_int_equal(engine_of(&info, "rcs")->cycles, 28257900);
    assert_int_equal(engine_of(&info, "rcs")->total_cycles, 7655183225);
    assert_false(int_is_known(engine_of(&info, "rcs")->busy_ns));
    assert_int_equal(engine_of(&info, "ccs")->capacity, 4);
    assert_int_equal(info.region_count, 2); /* cycles are no region */
    assert_int_equal(drm_fdinfo_memory_bytes(&info), 23992 * 1024);
    assert_int_equal(PARSE(drm_fdinfo_parse, panfrost, &info), 0);
    assert_string_equal(info.pdev, "");
    assert_int_equal(engine_of(&info, "fragment")->busy_ns, 1846584880);
    assert_int_equal(drm_fdinfo_memory_bytes(&info), 36496 * 1024);
}

static void test_other_files_are_rejected(void **state _unused_)
{
    struct drm_fdinfo info;

    assert_int_equal(PARSE(drm_fdinfo_parse, "pos:\t0\nflags:\t02\n", &info), -ENODATA);
    assert_int_equal(PARSE(drm_fdinfo_parse, "", &info), -ENODATA);
    assert_int_equal(PARSE(drm_fdinfo_parse, "drm-driver:\ti915", &info), -ENODATA); /* cut */
    assert_bad(drm_fdinfo_parse, "drm-driver:\n", &info);
    assert_bad(drm_fdinfo_parse, "drm-driver:\tx\ndrm-client-id:\t-1\n", &info);
    assert_bad(drm_fdinfo_parse, "drm-driver:\tx\ndrm-engine-gfx:\t10 s\n", &info);
    assert_bad(drm_fdinfo_parse, "drm-driver:\tx\ndrm-engine-capacity-gfx:\t0\n", &info);
    assert_bad(drm_fdinfo_parse, "drm-driver:\tx\ndrm-memory-vram:\t1 GiB\n", &info);
    assert_bad(drm_fdinfo_parse, "drm-driver:\tx\ndrm-memory-vram:\t9223372036854775807 KiB\n",
               &info);
    assert_bad(drm_fdinfo_parse, "drm-driver:\tabcdefghijklmnopqrstuvwxyz0123456789\n", &info);
}

static void test_fdinfo_with_too_many_entries(void **state _unused_)
{
    char text[8192] = "drm-driver:\tmany\n";
    struct drm_fdinfo info;

    for (int i = 0; i < 40; i++)
        sprintf(text + strlen(text), "drm-engine-e%d:\t%d ns\ndrm-memory-vram%d:\t1 MiB\n", i, i,
                i);
    assert_int_equal(PARSE(drm_fdinfo_parse, text, &info), 0);
    assert_int_equal(info.engine_count, DRM_ENGINES_MAX);
    assert_int_equal(info.region_count, DRM_REGIONS_MAX);
    assert_int_equal(PARSE(drm_fdinfo_parse,
                           "drm-driver:\tx\ndrm-memory-vram0:\t9223372036854775807\n"
                           "drm-memory-vram1:\t9223372036854775807\n",
                           &info),
                     0);
    assert_true(drm_fdinfo_memory_bytes(&info) == INT64_MAX);
}

static void test_uevent(void **state _unused_)
{
    struct drm_uevent uevent;

    assert_int_equal(PARSE(drm_uevent_parse,
                           "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:744C\n"
                           "PCI_SLOT_NAME=0000:c1:00.0\nMODALIAS=pci:v00001002\n",
                           &uevent),
                     0);
    assert_string_equal(uevent.driver, "amdgpu");
    assert_string_equal(uevent.pdev, "0000:c1:00.0");
    assert_string_equal(uevent.pci_id, "1002:744C");
    assert_int_equal(PARSE(drm_uevent_parse, "DRIVER=v3d\nOF_NAME=gpu\n", &uevent), 0);
    assert_string_equal(uevent.pdev, "");
    assert_int_equal(PARSE(drm_uevent_parse, "OF_NAME=gpu\n", &uevent), -ENODATA);
    assert_bad(drm_uevent_parse, "DRIVER=\n", &uevent);
}

/* ---- nvidia-smi ---- */

static struct gpu_reading *gpus_of(const char *text)
{
    struct gpu_reading *reading = gpu_reading_new();

    assert_non_null(reading);
    assert_int_equal(PARSE(nvidia_smi_gpus_parse, text, reading), 0);
    return reading;
}

static void test_smi_devices(void **state _unused_)
{
    struct gpu_reading *reading = gpus_of("0, 37, 3072, 24576, 61, 1755, 250.50, NVIDIA A10\n"
                                          "1, 0, 1, 24576, 33, 210, 9.13, Quadro, the 4,000th\n");
    const struct gpu_metric *gpu = reading->gpus.items;

    assert_int_equal(reading->gpus.count, 2);
    assert_true(gpu[0].index == 0 && gpu[0].utilization_pct == 37 && gpu[0].memory_used_mb == 3072);
    assert_true(gpu[0].memory_total_mb == 24576 && gpu[0].temperature_c == 61);
    assert_true(gpu[0].clock_mhz == 1755 && gpu[0].power_w == 250.5);
    assert_string_equal(gpu[0].name, "NVIDIA A10");
    assert_string_equal(gpu[0].vendor, "NVIDIA");
    assert_true(gpu[1].index == 1 && gpu[1].power_w == 9.13);
    assert_string_equal(gpu[1].name, "Quadro, the 4,000th");
    gpu_reading_free(reading);
}

static void test_smi_unknown_values(void **state _unused_)
{
    struct gpu_reading *reading =
        gpus_of("0, [N/A], [Not Supported], 24576, [Unknown Error], -5, N/A, [Unknown Error]\n"
                "3, 101, 1e300, 12 MiB, , nan, inf\n"
                "4, [N/A]\n");
    const struct gpu_metric *gpu = reading->gpus.items;

    assert_int_equal(reading->gpus.count, 3);
    assert_true(isnan(gpu[0].utilization_pct) && isnan(gpu[0].memory_used_mb));
    assert_true(gpu[0].memory_total_mb == 24576);
    assert_true(isnan(gpu[0].temperature_c) && isnan(gpu[0].clock_mhz) && isnan(gpu[0].power_w));
    assert_null(gpu[0].name);
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(gpu[i].index, i + 2);
        assert_true(isnan(gpu[i].utilization_pct) && isnan(gpu[i].memory_used_mb));
        assert_true(isnan(gpu[i].memory_total_mb) && isnan(gpu[i].temperature_c));
        assert_true(isnan(gpu[i].clock_mhz) && isnan(gpu[i].power_w));
        assert_null(gpu[i].name);
    }
    gpu_reading_free(reading);
}

static void test_smi_other_locales(void **state _unused_)
{
    struct gpu_reading *reading = gpus_of("0, 37, 3072, 24576, 61, 1755, 250,50, Karte\r\n");

    assert_int_equal(reading->gpus.count, 1);
    assert_true(reading->gpus.items[0].power_w == 250.5);
    assert_string_equal(reading->gpus.items[0].name, "Karte");
    gpu_reading_free(reading);
}

static void test_smi_garbage(void **state _unused_)
{
    static const char *const texts[] = {
        "",
        "\n\n",
        "No devices were found\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "index, utilization.gpu [%], name\n",
        "0, 37, 3072, 24576, 61, 1755, 250.50, cut in the mid",
        "-1, 5, 6\n",
        "99999999999999999999, 5\n",
        "256, 5\n",
        "4\n",
        "0x0, 5\n",
        "\xff\xfe\x00\x01\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct gpu_reading *reading = gpus_of(texts[i]);
        assert_int_equal(reading->gpus.count, 0);
        gpu_reading_free(reading);
    }
    struct gpu_reading *reading = gpus_of("garbage\n0, 5, 1, 2, 3, 4, 5, \x1b[31m\xff\n"
                                          "0, 6, 1, 2, 3, 4, 5, again\n");
    assert_int_equal(reading->gpus.count, 1);
    assert_true(reading->gpus.items[0].utilization_pct == 5);
    assert_string_equal(reading->gpus.items[0].name, "\x1b[31m\xef\xbf\xbd"); /* valid UTF-8 */
    gpu_reading_free(reading);

    static const char zeros[] = "0, 5, 1, 2, 3, 4, 5, \0name\n";
    reading = gpu_reading_new();
    assert_non_null(reading);
    assert_int_equal(PARSE_BYTES(nvidia_smi_gpus_parse, zeros, sizeof(zeros) - 1, reading), 0);
    assert_null(reading->gpus.items[0].name);
    gpu_reading_free(reading);
}

static void test_smi_processes(void **state _unused_)
{
    struct gpu_reading *reading = gpu_reading_new();

    assert_non_null(reading);
    assert_int_equal(PARSE(nvidia_smi_apps_parse,
                           "1234, 512\n77, [N/A]\n1234, 256\n0, 5\nx, 5\n99999999999, 5\n"
                           "88, [Not Found]\n5678, 1",
                           reading),
                     0);
    assert_int_equal(reading->processes.count, 2);
    assert_int_equal(reading->processes.items[0].pid, 1234);
    assert_int_equal(reading->processes.items[0].memory_bytes, INT64_C(512) << 20);
    assert_int_equal(reading->processes.items[1].memory_bytes, INT64_C(256) << 20);
    gpu_reading_free(reading);
}

static void test_smi_number_of_rows_is_limited(void **state _unused_)
{
    struct gpu_reading *reading = gpu_reading_new();
    char line[64];

    assert_non_null(reading);
    for (int i = 0; i < GPU_DEVICES_MAX + 10; i++) {
        snprintf(line, sizeof(line), "%d, 1, 2, 3\n", i);
        assert_int_equal(PARSE(nvidia_smi_gpus_parse, line, reading), 0);
    }
    assert_int_equal(reading->gpus.count, GPU_DEVICES_MAX);
    gpu_reading_free(reading);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fdinfo_of_amdgpu),
        cmocka_unit_test(test_fdinfo_of_i915),
        cmocka_unit_test(test_fdinfo_of_xe_and_panfrost),
        cmocka_unit_test(test_other_files_are_rejected),
        cmocka_unit_test(test_fdinfo_with_too_many_entries),
        cmocka_unit_test(test_uevent),
        cmocka_unit_test(test_smi_devices),
        cmocka_unit_test(test_smi_unknown_values),
        cmocka_unit_test(test_smi_other_locales),
        cmocka_unit_test(test_smi_garbage),
        cmocka_unit_test(test_smi_processes),
        cmocka_unit_test(test_smi_number_of_rows_is_limited),
    };
    return cmocka_run_group_tests_name("gpu-parse", tests, NULL, NULL);
}
