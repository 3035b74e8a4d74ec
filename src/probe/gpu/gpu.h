/* The GPUs of the machine, by what their drivers offer: NVIDIA's by NVML, AMD's, Intel's and
 * others' by the kernel (DRM).
 *
 * Opening a driver and asking it can take long, and it may hang: never in a loop or a thread that
 * others wait for; and where one must not take others with it, each source in a set of its own. */
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

/* Which sources have something to open, as bits: a look for devices that costs some microseconds,
 * and asks no driver. */
unsigned gpu_sources_there(const struct gpu_roots *roots);

/* How many devices NVIDIA's driver has made nodes for. */
unsigned gpu_nvidia_nodes(const struct gpu_roots *roots);

/* Opens those of `sources` (bits) that have a device. 0; -ENODEV (there is none, with why in words
 * that need not be freed) or another negative errno. */
int gpu_set_new(const struct gpu_roots *roots, unsigned sources, struct gpu_set **ret,
                const char **ret_reason);
void gpu_set_free(struct gpu_set *set);

/* They are numbered through: first NVIDIA's, then the others. */
unsigned gpu_set_count(const struct gpu_set *set);

/* Figures of one device; those that it does not tell are unknown. Texts are valid until the next
 * call. 0 or -ENODEV (no such device, or it does not answer). */
int gpu_set_read(struct gpu_set *set, unsigned index, struct gpu_metric *ret);

/* All devices that answer, and who has memory on them. 0 or -ENOMEM. */
int gpu_set_take(struct gpu_set *set, struct gpu_reading **ret);
