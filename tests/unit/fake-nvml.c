/* Stands in for NVIDIA's library, as libnvidia-ml.so.1. FAKE_NVML in the environment says how:
 *
 *     (nothing)   three devices, the second of which does not answer
 *     old         a version without clock and power, and with the older names only
 *     none        no device
 *     broken      it cannot be initialised
 *     stuck       it never comes back from asking for memory */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAILED 999

struct nvmlDevice_st {
    unsigned index;
};
static struct nvmlDevice_st devices[3] = {{0}, {1}, {2}};

static int is(const char *word)
{
    const char *given = getenv("FAKE_NVML");
    return given && strcmp(given, word) == 0;
}

int nvmlInit(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount(unsigned *ret);
int nvmlDeviceGetHandleByIndex(unsigned index, struct nvmlDevice_st **ret);
int nvmlDeviceGetUtilizationRates(struct nvmlDevice_st *device, unsigned *ret);
int nvmlDeviceGetMemoryInfo(struct nvmlDevice_st *device, unsigned long long *ret);
int nvmlDeviceGetTemperature(struct nvmlDevice_st *device, int sensor, unsigned *ret);

int nvmlInit(void)
{
    return is("broken") ? FAILED : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount(unsigned *ret)
{
    *ret = is("none") ? 0 : 3;
    return 0;
}

int nvmlDeviceGetHandleByIndex(unsigned index, struct nvmlDevice_st **ret)
{
    if (index >= 3 || index == 1)
        return FAILED;
    *ret = &devices[index];
    return 0;
}

int nvmlDeviceGetUtilizationRates(struct nvmlDevice_st *device, unsigned *ret)
{
    ret[0] = 30 + device->index;
    ret[1] = 99;
    return 0;
}

int nvmlDeviceGetMemoryInfo(struct nvmlDevice_st *device, unsigned long long *ret)
{
    while (is("stuck"))
        pause();
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

#ifndef FAKE_NVML_OLD
int nvmlDeviceGetClockInfo(struct nvmlDevice_st *device, int clock, unsigned *ret);
int nvmlDeviceGetPowerUsage(struct nvmlDevice_st *device, unsigned *ret);
int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned *ret);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvmlDevice_st **ret);

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
#endif
