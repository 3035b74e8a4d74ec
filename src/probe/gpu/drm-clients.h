/* Who uses the graphics devices of the kernel (DRM): the processes that hold a file of one open,
 * and what these files tell.
 *
 * Looking through all descriptors of all processes would cost more than all else that sonde does.
 * So who holds such a file is looked for every 5 s at most, and then only in processes that are new
 * or whose number of descriptors has changed (in all of them once a minute); in between, only the
 * files that are known are read. One that is shared by several processes counts once, for the first
 * of them. */
#pragma once

#include "probe/gpu/gpu-reading.h"

struct drm_clients;

/* Which device is meant: by its PCI address, or, for drivers that do not tell that, by its nodes,
 * /dev/dri/cardN and /dev/dri/renderDN. */
struct drm_device {
    const char *pdev;
    unsigned card;
    unsigned render;
};

/* `proc_root`: the directory mounted as /proc, or a fixture. 0 or a negative errno. */
int drm_clients_new(const char *proc_root, struct drm_clients **ret);
void drm_clients_free(struct drm_clients *clients);

/* Brings it up to date, as of `mono_ns`; not more often than every tenth of a second. Files of the
 * devices `asleep` are not read: some drivers would wake them. What cannot be noted, for want of
 * memory or because there are more than some thousand files, is missing; how busy its device is, is
 * unknown then. */
void drm_clients_look(struct drm_clients *clients, uint64_t mono_ns,
                      const struct drm_device *asleep, size_t count);

/* How busy the busiest engine of a device was between the last two looks, in percent: the sum over
 * its clients. REAL_UNKNOWN: it was looked at once only, some processes are hidden from this user
 * or by a pid namespace, or the driver does not tell, be it of a single file. */
double drm_clients_busy_pct(const struct drm_clients *clients, const struct drm_device *device);

/* The memory of each client of these devices, added to the reading. 0 or -ENOMEM. */
int drm_clients_read_processes(const struct drm_clients *clients, const struct drm_device *devices,
                               size_t count, struct gpu_reading *reading);
