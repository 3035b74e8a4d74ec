#include "fuzz.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "probe/gpu/nvidia-smi.h"

static void check_figure(double value)
{
    assert(!real_is_known(value) || (isfinite(value) && value >= 0));
}

static void check_gpu(const struct gpu_metric *gpu)
{
    assert(gpu->index >= 0 && gpu->index < GPU_DEVICES_MAX);
    check_figure(gpu->utilization_pct);
    assert(!(gpu->utilization_pct > 100));
    check_figure(gpu->memory_used_mb);
    check_figure(gpu->memory_total_mb);
    check_figure(gpu->temperature_c);
    check_figure(gpu->clock_mhz);
    check_figure(gpu->power_w);
    assert(!gpu->name || (*gpu->name && utf8_valid(gpu->name, strlen(gpu->name))));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct gpu_reading *reading = gpu_reading_new();

    if (!reading)
        abort();
    assert(nvidia_smi_gpus_parse((const char *)bytes, length, reading) == 0);
    assert(nvidia_smi_apps_parse((const char *)bytes, length, reading) == 0);
    for (size_t i = 0; i < reading->gpus.count; i++) {
        check_gpu(&reading->gpus.items[i]);
        for (size_t j = 0; j < i; j++)
            assert(reading->gpus.items[i].index != reading->gpus.items[j].index);
    }
    for (size_t i = 0; i < reading->processes.count; i++) {
        assert(reading->processes.items[i].pid > 0);
        assert(reading->processes.items[i].memory_bytes >= 0);
    }
    gpu_reading_free(reading);
    return 0;
}
