#include "probe/gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/utf8.h"

#define LIBRARY   "libnvidia-ml.so.1"
#define NAME_SIZE 96 /* NVML_DEVICE_NAME_V2_BUFFER_SIZE */

/* Declarations from nvml.h, whose license does not permit shipping it. */
typedef struct nvmlDevice_st *nvml_device;
struct nvml_utilization {
    unsigned gpu, memory;
};
struct nvml_memory {
    unsigned long long total, free, used;
};
enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_TEMPERATURE_GPU = 0,
    NVML_CLOCK_GRAPHICS = 0,
};

/* The common start of all versions of nvmlProcessInfo_t. */
struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
};
#define PROCESS_V1_BYTES  16 /* the functions without a suffix */
#define PROCESS_V2_BYTES  24 /* _v2 and _v3: the instance ids of a divided GPU */
#define PROCESS_MAX_BYTES 32 /* _v3 of the first 535 drivers, later reverted */
_Static_assert(sizeof(struct nvml_process) == PROCESS_V1_BYTES, "the library's own layout");

typedef int (*list_processes_fn)(nvml_device device, unsigned *count, void *ret);

enum process_kind { COMPUTE, GRAPHICS, PROCESS_KINDS };

struct process_lister {
    list_processes_fn list;
    size_t item_bytes; /* size of an entry in the version of `list` */
    bool is_measured;  /* measure_items() has confirmed `item_bytes` */
};

struct nvml {
    void *library;
    bool is_initialised;
    unsigned count;
    struct process_lister listers[PROCESS_KINDS];
    struct VEC(char) bytes[PROCESS_KINDS]; /* what `list` fills */
    char name[NAME_SIZE];
    int (*shutdown)(void);
    int (*get_handle)(unsigned index, nvml_device *ret);
    int (*get_name)(nvml_device device, char *ret, unsigned length);
    int (*get_utilization)(nvml_device device, struct nvml_utilization *ret);
    int (*get_memory)(nvml_device device, struct nvml_memory *ret);
    int (*get_temperature)(nvml_device device, int sensor, unsigned *ret_celsius);
    int (*get_clock)(nvml_device device, int clock, unsigned *ret_mhz);
    int (*get_power)(nvml_device device, unsigned *ret_milliwatts);
};

/* ---- loading ---- */

/* ISO C has no cast from data to function pointers; POSIX recommends this form. */
static void find_symbol(const struct nvml *nvml, const char *name, void *function)
{
    *(void **)function = dlsym(nvml->library, name);
}

/* Finds a function by its new or its old name. */
static void find_either(const struct nvml *nvml, const char *name, const char *older,
                        void *function)
{
    find_symbol(nvml, name, function);
    if (!*(void **)function)
        find_symbol(nvml, older, function);
}

static void find_lister(const struct nvml *nvml, const char *const names[static 3],
                        struct process_lister *ret)
{
    static const size_t item_bytes[] = {PROCESS_V2_BYTES, PROCESS_V2_BYTES, PROCESS_V1_BYTES};

    for (size_t i = 0; i < ARRAY_SIZE(item_bytes) && !ret->list; i++) {
        find_symbol(nvml, names[i], &ret->list);
        ret->item_bytes = item_bytes[i];
    }
}

static void find_listers(struct nvml *nvml)
{
    static const char *const compute[] = {"nvmlDeviceGetComputeRunningProcesses_v3",
                                          "nvmlDeviceGetComputeRunningProcesses_v2",
                                          "nvmlDeviceGetComputeRunningProcesses"};
    static const char *const graphics[] = {"nvmlDeviceGetGraphicsRunningProcesses_v3",
                                           "nvmlDeviceGetGraphicsRunningProcesses_v2",
                                           "nvmlDeviceGetGraphicsRunningProcesses"};

    find_lister(nvml, compute, &nvml->listers[COMPUTE]);
    find_lister(nvml, graphics, &nvml->listers[GRAPHICS]);
}

static void find_symbols(struct nvml *nvml)
{
    find_either(nvml, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex",
                &nvml->get_handle);
    find_symbol(nvml, "nvmlShutdown", &nvml->shutdown);
    find_symbol(nvml, "nvmlDeviceGetName", &nvml->get_name);
    find_symbol(nvml, "nvmlDeviceGetUtilizationRates", &nvml->get_utilization);
    find_symbol(nvml, "nvmlDeviceGetMemoryInfo", &nvml->get_memory);
    find_symbol(nvml, "nvmlDeviceGetTemperature", &nvml->get_temperature);
    find_symbol(nvml, "nvmlDeviceGetClockInfo", &nvml->get_clock);
    find_symbol(nvml, "nvmlDeviceGetPowerUsage", &nvml->get_power);
    find_listers(nvml);
}

static const char *describe_init_error(int error)
{
    switch (error) {
    case NVML_ERROR_NO_PERMISSION: return "no permission to use NVML";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "the NVIDIA driver is not loaded";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return "the versions of " LIBRARY " and of the driver differ (reload the driver or reboot)";
    default: return "NVML cannot be initialised";
    }
}

static int load(struct nvml *nvml, const char **ret_reason)
{
    int (*init)(void) = NULL;
    int (*get_count)(unsigned *) = NULL;

    *ret_reason = LIBRARY " cannot be loaded";
    nvml->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return -ENODEV;
    find_either(nvml, "nvmlInit_v2", "nvmlInit", &init);
    find_either(nvml, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", &get_count);
    find_symbols(nvml);
    if (!init || !get_count || !nvml->get_handle)
        return -ENODEV;

    int error = init();
    *ret_reason = describe_init_error(error);
    if (error != NVML_SUCCESS)
        return -ENODEV;
    nvml->is_initialised = true;
    *ret_reason = "NVML finds no device";
    if (get_count(&nvml->count) != NVML_SUCCESS || !nvml->count)
        return -ENODEV;
    nvml->count = MIN(nvml->count, (unsigned)GPU_DEVICES_MAX);
    return 0;
}

int nvml_open(struct nvml **ret, const char **ret_reason)
{
    const char *reason;
    struct nvml *nvml = calloc(1, sizeof(*nvml));
    if (!nvml)
        return -ENOMEM;

    int r = load(nvml, &reason);
    if (r < 0) {
        nvml_close(nvml);
        *ret_reason = reason;
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
    for (size_t i = 0; i < PROCESS_KINDS; i++)
        VEC_DONE(&nvml->bytes[i]);
    free(nvml);
}

unsigned nvml_count(const struct nvml *nvml)
{
    return nvml->count;
}

/* ---- devices ---- */

static void read_figures(const struct nvml *nvml, nvml_device device, struct gpu_metric *metric)
{
    struct nvml_utilization utilization;
    struct nvml_memory memory;
    unsigned value;

    if (nvml->get_utilization && nvml->get_utilization(device, &utilization) == NVML_SUCCESS &&
        utilization.gpu <= 100)
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

static const char *read_name(struct nvml *nvml, nvml_device device)
{
    char name[NAME_SIZE] = "";

    if (!nvml->get_name || nvml->get_name(device, name, sizeof(name)) != NVML_SUCCESS)
        return NULL;
    return utf8_clean(nvml->name, sizeof(nvml->name), name, strnlen(name, sizeof(name)))
               ? nvml->name
               : NULL;
}

int nvml_read(struct nvml *nvml, unsigned index, struct gpu_metric *ret)
{
    nvml_device device;

    if (index >= nvml->count || nvml->get_handle(index, &device) != NVML_SUCCESS)
        return -ENODEV;
    record_init(&gpu_metric_record, ret);
    ret->index = index;
    ret->vendor = "NVIDIA";
    ret->name = read_name(nvml, device);
    read_figures(nvml, device, ret);
    return 0;
}

/* ---- processes ---- */

/* Between two calls the number of processes may exceed the buffer again. */
#define LIST_TRIES 3

/* Returns the number of processes listed; or -1, with *room set to the number of entries needed (0:
 * the device does not report them). Each entry has room for the largest layout, so that a driver
 * with an unexpected layout cannot write beyond the buffer. */
static int fill_list(struct nvml *nvml, enum process_kind kind, nvml_device device, unsigned *room)
{
    unsigned count = *room;

    if (VEC_RESERVE(&nvml->bytes[kind], (size_t)*room * PROCESS_MAX_BYTES) < 0)
        return -1;
    int error = nvml->listers[kind].list(device, &count, nvml->bytes[kind].items);
    if (error == NVML_SUCCESS)
        return (int)MIN(count, *room);
    *room = error == NVML_ERROR_INSUFFICIENT_SIZE ? MAX(count, *room) + *room : 0;
    return -1;
}

static bool is_touched(const char *bytes, size_t from, size_t to, char pattern)
{
    for (size_t i = from; i < to; i++)
        if (bytes[i] != pattern)
            return true;
    return false;
}

/* Drivers have used different layouts under the same name. How far the driver writes shows which
 * one it uses. This needs two entries: a driver may leave the end of the last entry unwritten. */
static void measure_items(struct nvml *nvml, enum process_kind kind, nvml_device device,
                          int expected)
{
    struct process_lister *lister = &nvml->listers[kind];
    const char pattern = 0x5a; /* unlikely as the last byte of a counter or an id */
    unsigned room = (unsigned)expected;
    size_t count = (size_t)expected;
    char *bytes = nvml->bytes[kind].items;

    memset(bytes, pattern, count * PROCESS_MAX_BYTES);
    if (fill_list(nvml, kind, device, &room) != expected)
        return;
    lister->is_measured = true;
    if (is_touched(bytes, count * PROCESS_V2_BYTES, count * PROCESS_MAX_BYTES, pattern))
        lister->item_bytes = PROCESS_MAX_BYTES;
    else if (is_touched(bytes, count * PROCESS_V1_BYTES, count * PROCESS_V2_BYTES, pattern))
        lister->item_bytes = PROCESS_V2_BYTES;
    else
        lister->item_bytes = PROCESS_V1_BYTES;
}

/* Returns the number of processes; 0 if the device does not report them. */
static int list_processes(struct nvml *nvml, enum process_kind kind, nvml_device device)
{
    unsigned room = 32;
    int count = -1;

    for (int i = 0; nvml->listers[kind].list && count < 0 && i < LIST_TRIES && room &&
                    room <= GPU_PROCESSES_MAX;
         i++) {
        count = fill_list(nvml, kind, device, &room);
        if (count > 1 && !nvml->listers[kind].is_measured) {
            measure_items(nvml, kind, device, count);
            count = nvml->listers[kind].is_measured ? count : -1;
        }
    }
    return MAX(count, 0);
}

static struct nvml_process process_at(const struct nvml *nvml, enum process_kind kind, int i)
{
    struct nvml_process process;

    memcpy(&process, nvml->bytes[kind].items + (size_t)i * nvml->listers[kind].item_bytes,
           sizeof(process));
    return process;
}

/* A process that uses compute and graphics is in both lists, with the same memory. */
static bool is_listed(const struct nvml *nvml, enum process_kind kind, int count, unsigned pid)
{
    for (int i = 0; i < count; i++)
        if (process_at(nvml, kind, i).pid == pid)
            return true;
    return false;
}

int nvml_read_processes(struct nvml *nvml, unsigned index, struct gpu_reading *reading)
{
    int counts[PROCESS_KINDS];
    nvml_device device;

    if (index >= nvml->count || nvml->get_handle(index, &device) != NVML_SUCCESS)
        return 0;
    for (size_t kind = 0; kind < PROCESS_KINDS; kind++)
        counts[kind] = list_processes(nvml, kind, device);
    for (size_t kind = 0; kind < PROCESS_KINDS; kind++)
        for (int i = 0; i < counts[kind]; i++) {
            struct nvml_process process = process_at(nvml, kind, i);
            if (process.pid == 0 || process.pid > INT32_MAX ||
                process.used_bytes > INT64_MAX /* not available */ ||
                (kind == GRAPHICS && is_listed(nvml, COMPUTE, counts[COMPUTE], process.pid)))
                continue;
            int r =
                gpu_reading_add_process(reading, (pid_t)process.pid, (int64_t)process.used_bytes);
            if (r < 0)
                return r;
        }
    return 0;
}
