/* NVIDIA's management library, loaded at run time. Figures that an old version does not offer are
 * unknown. Opening it takes long, and any call may hang: never call it from a loop, or from a
 * thread that others wait for. */
#pragma once

#include "probe/gpu/gpu-reading.h"

struct nvml;

/* Returns 0, -ENODEV (no library, driver or device; *ret_reason explains it, as a string that is
 * not freed), or -ENOMEM. */
int nvml_open(struct nvml **ret, const char **ret_reason);
void nvml_close(struct nvml *nvml);

unsigned nvml_count(const struct nvml *nvml);
/* Reads one device. The strings of *ret are valid until the next call. Returns 0 or -ENODEV (the
 * device does not respond). */
int nvml_read(struct nvml *nvml, unsigned index, struct gpu_metric *ret);
/* Adds the processes with memory on the device to the reading; none if the device does not report
 * them. Returns 0 or -ENOMEM. */
int nvml_read_processes(struct nvml *nvml, unsigned index, struct gpu_reading *reading);
