/* NVIDIA's management library, loaded at run time: only what is used is declared here, and what an
 * old version does not have is unknown. */
#pragma once

#include "model/snapshot.h"

struct nvml;

/* 0, -ENODEV (no driver, or no device) or -ENOMEM. */
int nvml_open(struct nvml **ret);
void nvml_close(struct nvml *nvml);

unsigned nvml_count(const struct nvml *nvml);
/* 0 or -ENODEV: the device does not answer. */
int nvml_read(const struct nvml *nvml, unsigned index, struct gpu_metric *ret);
