/* The GPUs of the machine: NVIDIA's through NVML, AMD's, Intel's and others through the kernel
 * (DRM).
 *
 * Opening or reading a driver can take long or hang. Never call this from a loop, or from a thread
 * that others wait for. Use one set per source if a hanging source must not block the other. */
#pragma once

#include "probe/gpu/gpu-reading.h"

struct gpu_set;

enum gpu_source {
    GPU_SOURCE_NVML,
    GPU_SOURCE_DRM,
    GPU_SOURCE_COUNT,
};
#define GPU_SOURCE_BIT(source) (1u << (source))
#define GPU_SOURCES_ALL        (GPU_SOURCE_BIT(GPU_SOURCE_COUNT) - 1)

/* The directories mounted as /proc, /sys and /dev, or fixtures. */
struct gpu_roots {
    const char *proc;
    const char *sys;
    const char *dev;
};

/* Returns the sources that have device nodes, as bits. Costs some microseconds and calls no
 * driver. */
unsigned gpu_sources_present(const struct gpu_roots *roots);

/* Returns the number of device nodes of NVIDIA's driver. */
unsigned gpu_nvidia_nodes(const struct gpu_roots *roots);

/* Opens those of `sources` (bits) that have a device. Returns 0, -ENODEV (none has) or another
 * negative errno. On failure *ret_reason explains it, as a string that is not freed. */
int gpu_set_new(const struct gpu_roots *roots, unsigned sources, struct gpu_set **ret,
                const char **ret_reason);
void gpu_set_free(struct gpu_set *set);

/* Returns the number of devices. Their indices are consecutive: first NVIDIA's, then the others. */
unsigned gpu_set_count(const struct gpu_set *set);

/* Reads one device; figures that it does not report are unknown. Strings are valid until the next
 * call. Returns 0 or -ENODEV (no such device, or it does not respond). */
int gpu_set_read(struct gpu_set *set, unsigned index, struct gpu_metric *ret);

/* Reads all devices that respond, and the processes with memory on them. The caller frees *ret.
 * Returns 0 or -ENOMEM. */
int gpu_set_read_all(struct gpu_set *set, struct gpu_reading **ret);
