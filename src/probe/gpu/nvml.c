#include "probe/gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define LIBRARY "libnvidia-ml.so.1"

/* nvml.h, which is not ours to ship. */
typedef struct nvmlDevice_st *nvml_device;
struct nvml_utilization {
    unsigned gpu, memory;
};
struct nvml_memory {
    unsigned long long total, free, used;
};
enum {
    NVML_SUCCESS = 0,
    NVML_TEMPERATURE_GPU = 0,
    NVML_CLOCK_GRAPHICS = 0,
};

struct nvml {
    void *library;
    bool is_initialised;
    unsigned count;
    int (*shutdown)(void);
    int (*get_handle)(unsigned index, nvml_device *ret);
    int (*get_utilization)(nvml_device device, struct nvml_utilization *ret);
    int (*get_memory)(nvml_device device, struct nvml_memory *ret);
    int (*get_temperature)(nvml_device device, int sensor, unsigned *ret_celsius);
    int (*get_clock)(nvml_device device, int clock, unsigned *ret_mhz);
    int (*get_power)(nvml_device device, unsigned *ret_milliwatts);
};

/* ISO C has no cast from data to functions; POSIX says that this is how it is done. */
static void find_symbol(const struct nvml *nvml, const char *name, void *function)
{
    *(void **)function = dlsym(nvml->library, name);
}

/* The newer name, or the one that the same function had before. */
static void find_either(const struct nvml *nvml, const char *name, const char *older,
                        void *function)
{
    find_symbol(nvml, name, function);
    if (!*(void **)function)
        find_symbol(nvml, older, function);
}

static int load(struct nvml *nvml)
{
    int (*init)(void) = NULL;
    int (*get_count)(unsigned *) = NULL;

    nvml->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return -ENODEV;
    find_either(nvml, "nvmlInit_v2", "nvmlInit", &init);
    find_either(nvml, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", &get_count);
    find_either(nvml, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex",
                &nvml->get_handle);
    find_symbol(nvml, "nvmlShutdown", &nvml->shutdown);
    find_symbol(nvml, "nvmlDeviceGetUtilizationRates", &nvml->get_utilization);
    find_symbol(nvml, "nvmlDeviceGetMemoryInfo", &nvml->get_memory);
    find_symbol(nvml, "nvmlDeviceGetTemperature", &nvml->get_temperature);
    find_symbol(nvml, "nvmlDeviceGetClockInfo", &nvml->get_clock);
    find_symbol(nvml, "nvmlDeviceGetPowerUsage", &nvml->get_power);

    if (!init || !get_count || !nvml->get_handle || init() != NVML_SUCCESS)
        return -ENODEV;
    nvml->is_initialised = true;
    return get_count(&nvml->count) == NVML_SUCCESS && nvml->count ? 0 : -ENODEV;
}

int nvml_open(struct nvml **ret)
{
    struct nvml *nvml = calloc(1, sizeof(*nvml));
    if (!nvml)
        return -ENOMEM;

    int r = load(nvml);
    if (r < 0) {
        nvml_close(nvml);
        return r;
    }
    *ret = nvml;
    return 0;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    if (nvml->is_initialised && nvml->shutdown)
        nvml->shutdown();
    if (nvml->library)
        dlclose(nvml->library);
    free(nvml);
}

unsigned nvml_count(const struct nvml *nvml)
{
    return nvml->count;
}

static void read_figures(const struct nvml *nvml, nvml_device device, struct gpu_metric *metric)
{
    struct nvml_utilization utilization;
    struct nvml_memory memory;
    unsigned value;

    if (nvml->get_utilization && nvml->get_utilization(device, &utilization) == NVML_SUCCESS)
        metric->utilization_pct = utilization.gpu;
    if (nvml->get_memory && nvml->get_memory(device, &memory) == NVML_SUCCESS) {
        metric->memory_used_mb = (double)memory.used / BYTES_PER_MB;
        metric->memory_total_mb = (double)memory.total / BYTES_PER_MB;
    }
    if (nvml->get_temperature &&
        nvml->get_temperature(device, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS)
        metric->temperature_c = value;
    if (nvml->get_clock && nvml->get_clock(device, NVML_CLOCK_GRAPHICS, &value) == NVML_SUCCESS)
        metric->clock_mhz = value;
    if (nvml->get_power && nvml->get_power(device, &value) == NVML_SUCCESS)
        metric->power_w = value / 1e3;
}

int nvml_read(const struct nvml *nvml, unsigned index, struct gpu_metric *ret)
{
    nvml_device device;

    if (index >= nvml->count || nvml->get_handle(index, &device) != NVML_SUCCESS)
        return -ENODEV;
    record_init(&gpu_metric_record, ret);
    ret->index = index;
    read_figures(nvml, device, ret);
    return 0;
}
