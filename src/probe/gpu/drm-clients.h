/* The clients of the kernel's graphics devices (DRM): the processes that have a device file open,
 * and the figures in the fdinfo of these files.
 *
 * Scanning all descriptors of all processes would cost more than everything else that sonde does.
 * Therefore the scan for open device files runs at most every 5 s, and only over processes that are
 * new or whose number of descriptors has changed (over all processes once a minute). In between
 * only the known files are read. A file shared by several processes counts once, for the smallest
 * pid. */
#pragma once

#include "probe/gpu/gpu-reading.h"

struct drm_clients;

/* Identifies a device: by its PCI address or, for drivers that do not report one, by its nodes
 * /dev/dri/cardN and /dev/dri/renderDN. */
struct drm_device {
    const char *pdev;
    unsigned card;
    unsigned render;
};

/* `proc_root` is the directory mounted as /proc, or a fixture. Returns 0 or a negative errno. */
int drm_clients_new(const char *proc_root, struct drm_clients **ret);
void drm_clients_free(struct drm_clients *clients);

/* Updates the figures as of `mono_ns`, at most every tenth of a second. Files of the devices
 * `asleep` are not read, because some drivers would wake them. If memory is short, or there are
 * more than some thousand files, clients are missing and the load of their device is unknown. */
void drm_clients_update(struct drm_clients *clients, uint64_t mono_ns,
                        const struct drm_device *asleep, size_t count);

/* Returns the load in percent of the busiest engine of a device between the last two updates,
 * summed over its clients. REAL_UNKNOWN if there was only one update, if some processes are hidden
 * from this user or by a pid namespace, or if the driver does not report the load of even one file.
 */
double drm_clients_busy_pct(const struct drm_clients *clients, const struct drm_device *device);

/* Adds the memory of each client of these devices to the reading. Returns 0 or -ENOMEM. */
int drm_clients_read_processes(const struct drm_clients *clients, const struct drm_device *devices,
                               size_t count, struct gpu_reading *reading);
