/* NVIDIA's management library, loaded at run time: only what is used is declared here, and what an
 * old version does not have is unknown. Opening it takes long, and any call may hang: never in a
 * loop or a thread that others wait for. */
#pragma once

#include "probe/gpu/gpu-reading.h"

struct nvml;

/* 0; -ENODEV (no library, no driver, no device), with why in words that need not be freed; or
 * -ENOMEM. */
int nvml_open(struct nvml **ret, const char **ret_reason);
void nvml_close(struct nvml *nvml);

unsigned nvml_count(const struct nvml *nvml);
/* Texts are valid until it is closed. 0 or -ENODEV: the device does not answer. */
int nvml_read(struct nvml *nvml, unsigned index, struct gpu_metric *ret);
/* Who has memory on the device, added to the reading: of a device that does not tell, nobody. 0 or
 * -ENOMEM. */
int nvml_read_processes(struct nvml *nvml, unsigned index, struct gpu_reading *reading);
