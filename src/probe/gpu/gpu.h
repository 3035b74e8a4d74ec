/* The GPUs of the machine, by what their drivers offer: raw readings, one device at a time.
 *
 * NVIDIA's by NVML. Opening a driver and asking it can take long, and it may hang: never in a loop
 * or a thread that others wait for. */
#pragma once

#include "model/snapshot.h"

struct gpu_set;

/* 0, -ENODEV (there is none, or no driver) or another negative errno. */
int gpu_set_new(struct gpu_set **ret);
void gpu_set_free(struct gpu_set *set);

unsigned gpu_set_count(const struct gpu_set *set);

/* Figures of one device; those that it does not tell are unknown, and so are its texts. 0 or
 * -ENODEV (no such device, or it does not answer). */
int gpu_set_read(struct gpu_set *set, unsigned index, struct gpu_metric *ret);
