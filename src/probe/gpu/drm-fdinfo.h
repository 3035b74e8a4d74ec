/* fdinfo of a file of a graphics driver, as the kernel's drm-usage-stats describes it: what one
 * client has used of one device. The same text for all drivers (amdgpu, i915, xe, panfrost, …), so
 * one parser for all of them; no I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRM_NAME_SIZE   32 /* of a driver, an engine, a region, a PCI address */
#define DRM_ENGINES_MAX 16 /* xe and amdgpu have some ten; more are left out */
#define DRM_REGIONS_MAX 8

/* Either kind of figure: time, or cycles out of as many as there were. INT_UNKNOWN: not told. */
struct drm_engine {
    char name[DRM_NAME_SIZE];
    int64_t busy_ns;
    int64_t cycles;
    int64_t total_cycles;
    int64_t capacity; /* how many there are of that name, which `busy_ns` and `cycles` add up */
};

struct drm_region {
    char name[DRM_NAME_SIZE];
    int64_t resident_bytes;
    int64_t total_bytes;
};

struct drm_fdinfo {
    char driver[DRM_NAME_SIZE];
    char pdev[DRM_NAME_SIZE]; /* PCI address; empty: it is no PCI device */
    int64_t client_id;        /* INT_UNKNOWN: not told */
    size_t engine_count;
    struct drm_engine engines[DRM_ENGINES_MAX];
    size_t region_count;
    struct drm_region regions[DRM_REGIONS_MAX];
};

/* 0, -ENODATA (it is no such file: there is no driver's name) or -EBADMSG. */
int drm_fdinfo_parse(const char *bytes, size_t length, struct drm_fdinfo *ret);

/* What the client has of the device's own memory; where there is none (it shares the machine's), of
 * all. INT_UNKNOWN: not told. */
int64_t drm_fdinfo_memory_bytes(const struct drm_fdinfo *info);
