/* The graphics devices of the kernel (DRM), as their drivers show them in sysfs: AMD's, Intel's and
 * any other's, but for those that NVIDIA's own driver has, which tells of them by its library.
 *
 * Only what can render is a GPU: the screen of a server's management chip is not. A card that
 * sleeps is not woken to be read. Reading may hang where a driver does: never in a loop or a thread
 * that others wait for. */
#pragma once

#include "probe/gpu/gpu-reading.h"

struct drm_cards;

/* `sys_root`, `proc_root`: the directories mounted as /sys and /proc, or fixtures. 0, -ENODEV
 * (there is none, with why) or another negative errno. */
int drm_cards_open(const char *sys_root, const char *proc_root, struct drm_cards **ret,
                   const char **ret_reason);
void drm_cards_close(struct drm_cards *cards);

/* Whether there is anything to open, at the cost of a look at one directory. */
bool drm_cards_may_be(const char *sys_root);

unsigned drm_cards_count(const struct drm_cards *cards);
/* Texts are valid until they are closed. 0 or -ENODEV: it is gone. */
int drm_cards_read(struct drm_cards *cards, unsigned index, uint64_t mono_ns,
                   struct gpu_metric *ret);
/* Who has memory on them, added to the reading. 0 or -ENOMEM. */
int drm_cards_read_processes(struct drm_cards *cards, uint64_t mono_ns,
                             struct gpu_reading *reading);
