/* Stands in for NVIDIA's library, as libnvidia-ml.so.1: three devices, the second of which does not
 * answer. The variable FAKE_NVML changes its behaviour:
 *
 *     none        no device
 *     broken      it cannot be initialised
 *     mismatch    its driver is of another version
 *     stuck       a query for memory never returns
 *     stuck-init  initialisation never returns
 *     wide        processes are listed in the layout of the first drivers 535
 *     narrow      … in the layout without instances, although the function's name says
 * otherwise sparing     … and of the last one, only pid and memory are written overdone    it
 * reports more than 100 % busy
 *
 * FAKE_NVML_FILE names a file with lines that may change while it is used: such a word, or "compute
 * DEVICE PID BYTES" and "graphics DEVICE PID BYTES" (BYTES -1: not available). Compiled with
 * FAKE_NVML_OLD it is an old version: no clock, no power, and only the older names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FAILED            999
#define INSUFFICIENT_SIZE 7
#define DEVICES           3

struct nvmlDevice_st {
    unsigned index;
};
static struct nvmlDevice_st devices[DEVICES] = {{0}, {1}, {2}};

static FILE *open_file(void)
{
    const char *path = getenv("FAKE_NVML_FILE");
    return path ? fopen(path, "re") : NULL;
}

static int is(const char *word)
{
    const char *given = getenv("FAKE_NVML");
    char line[128];
    int found = given && strcmp(given, word) == 0;

    FILE *file = open_file();
    while (file && !found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        found = strcmp(line, word) == 0;
    }
    if (file)
        fclose(file);
    return found;
}

static void hang_while(const char *word)
{
    while (is(word))
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

int nvmlInit(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount(unsigned *ret);
int nvmlDeviceGetHandleByIndex(unsigned index, struct nvmlDevice_st **ret);
int nvmlDeviceGetName(struct nvmlDevice_st *device, char *ret, unsigned length);
int nvmlDeviceGetUtilizationRates(struct nvmlDevice_st *device, unsigned *ret);
int nvmlDeviceGetMemoryInfo(struct nvmlDevice_st *device, unsigned long long *ret);
int nvmlDeviceGetTemperature(struct nvmlDevice_st *device, int sensor, unsigned *ret);
int nvmlDeviceGetComputeRunningProcesses(struct nvmlDevice_st *device, unsigned *count, void *ret);
int nvmlDeviceGetGraphicsRunningProcesses(struct nvmlDevice_st *device, unsigned *count, void *ret);

int nvmlInit(void)
{
    hang_while("stuck-init");
    if (is("mismatch"))
        return 18;
    return is("broken") ? FAILED : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount(unsigned *ret)
{
    *ret = is("none") ? 0 : DEVICES;
    return 0;
}

int nvmlDeviceGetHandleByIndex(unsigned index, struct nvmlDevice_st **ret)
{
    if (index >= DEVICES || index == 1)
        return FAILED;
    *ret = &devices[index];
    return 0;
}

int nvmlDeviceGetName(struct nvmlDevice_st *device, char *ret, unsigned length)
{
    snprintf(ret, length, "Fake %c, 24 GB", 'A' + (int)device->index);
    return 0;
}

int nvmlDeviceGetUtilizationRates(struct nvmlDevice_st *device, unsigned *ret)
{
    ret[0] = (is("overdone") ? 101 : 30) + device->index;
    ret[1] = 99;
    return 0;
}

int nvmlDeviceGetMemoryInfo(struct nvmlDevice_st *device, unsigned long long *ret)
{
    hang_while("stuck");
    ret[0] = 24ull << 30;
    ret[2] = (1ull + device->index) << 30;
    ret[1] = ret[0] - ret[2];
    return 0;
}

int nvmlDeviceGetTemperature(struct nvmlDevice_st *device, int sensor, unsigned *ret)
{
    *ret = 60 + device->index;
    return sensor == 0 ? 0 : FAILED;
}

/* ---- processes ---- */

struct item {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
    unsigned long long protected_memory;
};

static int list(const char *kind, unsigned index, unsigned *count, char *ret, size_t item_bytes)
{
    const unsigned room = *count;
    const int is_sparing = is("sparing");
    char *last = NULL;
    struct item before;
    char line[128], word[32];
    unsigned device, found = 0;
    struct item item = {.gpu_instance = ~0u, .compute_instance = ~0u};
    long long used;

    FILE *file = open_file();
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%31s %u %u %lld", word, &device, &item.pid, &used) != 4 ||
            strcmp(word, kind) != 0 || device != index)
            continue;
        item.used = (unsigned long long)used;
        if (last) /* it was not */
            memcpy(last, &before, item_bytes);
        last = NULL;
        if (found++ < room) {
            last = ret + (found - 1) * item_bytes;
            memcpy(last, &item, is_sparing ? 16 : item_bytes);
            before = item;
        }
    }
    if (file)
        fclose(file);
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : 0;
}

int nvmlDeviceGetComputeRunningProcesses(struct nvmlDevice_st *device, unsigned *count, void *ret)
{
    return list("compute", device->index, count, ret, 16);
}

int nvmlDeviceGetGraphicsRunningProcesses(struct nvmlDevice_st *device, unsigned *count, void *ret)
{
    return list("graphics", device->index, count, ret, 16);
}

#ifndef FAKE_NVML_OLD
int nvmlDeviceGetClockInfo(struct nvmlDevice_st *device, int clock, unsigned *ret);
int nvmlDeviceGetPowerUsage(struct nvmlDevice_st *device, unsigned *ret);
int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned *ret);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvmlDevice_st **ret);
int nvmlDeviceGetComputeRunningProcesses_v3(struct nvmlDevice_st *device, unsigned *count,
                                            void *ret);
int nvmlDeviceGetGraphicsRunningProcesses_v2(struct nvmlDevice_st *device, unsigned *count,
                                             void *ret);

int nvmlDeviceGetClockInfo(struct nvmlDevice_st *device, int clock, unsigned *ret)
{
    *ret = 1500 + device->index;
    return clock == 0 ? 0 : FAILED;
}

int nvmlDeviceGetPowerUsage(struct nvmlDevice_st *device, unsigned *ret)
{
    *ret = 250500 + device->index;
    return 0;
}

int nvmlInit_v2(void)
{
    return nvmlInit();
}

int nvmlDeviceGetCount_v2(unsigned *ret)
{
    return nvmlDeviceGetCount(ret);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvmlDevice_st **ret)
{
    return nvmlDeviceGetHandleByIndex(index, ret);
}

static size_t item_bytes(void)
{
    return is("wide") ? 32 : is("narrow") ? 16 : 24;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct nvmlDevice_st *device, unsigned *count,
                                            void *ret)
{
    return list("compute", device->index, count, ret, item_bytes());
}

int nvmlDeviceGetGraphicsRunningProcesses_v2(struct nvmlDevice_st *device, unsigned *count,
                                             void *ret)
{
    return list("graphics", device->index, count, ret, item_bytes());
}
#endif
