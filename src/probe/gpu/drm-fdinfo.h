/* Parses fdinfo of an open DRM device, as the kernel's drm-usage-stats document describes it: what
 * one client has used of one device. All drivers (amdgpu, i915, xe, panfrost, …) use the same
 * format. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRM_NAME_SIZE   32 /* of a driver, an engine, a region, a PCI address */
#define DRM_ENGINES_MAX 16 /* xe and amdgpu have about ten; more are ignored */
#define DRM_REGIONS_MAX 8

/* A driver reports either busy time, or busy cycles and total cycles; the other is INT_UNKNOWN. */
struct drm_engine {
    char name[DRM_NAME_SIZE];
    int64_t busy_ns;
    int64_t cycles;
    int64_t total_cycles;
    int64_t capacity; /* number of engines of that name; `busy_ns` and `cycles` are their sum */
};

struct drm_region {
    char name[DRM_NAME_SIZE];
    int64_t resident_bytes;
    int64_t total_bytes;
};

struct drm_fdinfo {
    char driver[DRM_NAME_SIZE];
    char pdev[DRM_NAME_SIZE]; /* PCI address; empty: not a PCI device */
    int64_t client_id;        /* INT_UNKNOWN: not reported */
    size_t engine_count;
    struct drm_engine engines[DRM_ENGINES_MAX];
    size_t region_count;
    struct drm_region regions[DRM_REGIONS_MAX];
};

/* Returns 0, -ENODATA (no driver name: not a DRM file) or -EBADMSG. */
int drm_fdinfo_parse(const char *bytes, size_t length, struct drm_fdinfo *ret);

/* Returns the client's part of the device's own memory or, if the device has none (it shares the
 * machine's), of all regions. INT_UNKNOWN: not reported. */
int64_t drm_fdinfo_memory_bytes(const struct drm_fdinfo *info);
