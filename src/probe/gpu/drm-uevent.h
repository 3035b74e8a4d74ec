/* Parses the `uevent` file of a device in sysfs: driver, PCI address and PCI id. No I/O. */
#pragma once

#include "probe/gpu/drm-fdinfo.h"

struct drm_uevent {
    char driver[DRM_NAME_SIZE];
    char pdev[DRM_NAME_SIZE];   /* PCI address, `0000:03:00.0`; empty: not a PCI device */
    char pci_id[DRM_NAME_SIZE]; /* `1002:744C` */
};

/* Returns 0, -ENODATA (no driver is bound) or -EBADMSG. */
int drm_uevent_parse(const char *bytes, size_t length, struct drm_uevent *ret);
