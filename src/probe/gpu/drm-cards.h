/* The graphics devices of the kernel (DRM) in sysfs: AMD's, Intel's and others, except those of
 * NVIDIA's own driver, which are read through NVML.
 *
 * Only a device that can render counts as a GPU; the display of a server's management chip does
 * not. A suspended card is not woken. Reading may hang with a driver: never call it from a loop, or
 * from a thread that others wait for. */
#pragma once

#include "probe/gpu/gpu-reading.h"

struct drm_cards;

/* Opens all cards. `sys_root` and `proc_root` are the directories mounted as /sys and /proc, or
 * fixtures. Returns 0, -ENODEV (no such device; *ret_reason explains it) or another negative errno.
 */
int drm_cards_open(const char *sys_root, const char *proc_root, struct drm_cards **ret,
                   const char **ret_reason);
void drm_cards_close(struct drm_cards *cards);

/* Returns whether there is any card to open; reads only one directory. */
bool drm_cards_exist(const char *sys_root);

unsigned drm_cards_count(const struct drm_cards *cards);
/* Reads one card. The strings are valid until drm_cards_close(). Returns 0 or -ENODEV (the device
 * is gone). */
int drm_cards_read(struct drm_cards *cards, unsigned index, uint64_t mono_ns,
                   struct gpu_metric *ret);
/* Adds the processes with memory on the cards to the reading. Returns 0 or -ENOMEM. */
int drm_cards_read_processes(struct drm_cards *cards, uint64_t mono_ns,
                             struct gpu_reading *reading);
