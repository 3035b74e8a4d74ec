#include "probe/gpu/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "probe/gpu/drm-cards.h"
#include "probe/gpu/nvml.h"

struct gpu_set {
    int proc_fd;
    bool knows_pids;         /* whether NVML's pids are valid here */
    struct nvml *nvml;       /* may be NULL */
    struct drm_cards *cards; /* may be NULL */
};

static bool has_node(const char *dev_root, const char *name)
{
    _cleanup_close_ int dev_fd = open(dev_root, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return dev_fd >= 0 && faccessat(dev_fd, name, F_OK, 0) == 0;
}

/* NVIDIA's driver has a control node and a node for each device; WSL has `dxg`. Without these nodes
 * NVML must not be opened: it would start a program that creates them. */
static bool has_nvidia_node(const struct gpu_roots *roots)
{
    return (has_node(roots->dev, "nvidiactl") && gpu_nvidia_nodes(roots)) ||
           has_node(roots->dev, "dxg");
}

unsigned gpu_sources_present(const struct gpu_roots *roots)
{
    return (has_nvidia_node(roots) ? GPU_SOURCE_BIT(GPU_SOURCE_NVML) : 0) |
           (drm_cards_exist(roots->sys) ? GPU_SOURCE_BIT(GPU_SOURCE_DRM) : 0);
}

unsigned gpu_nvidia_nodes(const struct gpu_roots *roots)
{
    _cleanup_close_ int dev_fd = open(roots->dev, O_PATH | O_DIRECTORY | O_CLOEXEC);
    unsigned count = 0;
    char name[32] = "nvidia0";

    while (dev_fd >= 0 && count < GPU_DEVICES_MAX && faccessat(dev_fd, name, F_OK, 0) == 0)
        snprintf(name, sizeof(name), "nvidia%u", ++count);
    return count;
}

static int open_sources(struct gpu_set *set, const struct gpu_roots *roots, unsigned sources,
                        const char **reason)
{
    int r = 0;

    set->proc_fd = open(roots->proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (set->proc_fd < 0)
        return -errno;
    set->knows_pids = gpu_reading_knows_pids(set->proc_fd);
    if (sources & GPU_SOURCE_BIT(GPU_SOURCE_DRM))
        r = drm_cards_open(roots->sys, roots->proc, &set->cards, reason);
    if (r < 0 && r != -ENODEV)
        return r;
    if (sources & GPU_SOURCE_BIT(GPU_SOURCE_NVML))
        r = nvml_open(&set->nvml, reason);
    if (r < 0 && r != -ENODEV)
        return r;
    return set->nvml || set->cards ? 0 : -ENODEV;
}

int gpu_set_new(const struct gpu_roots *roots, unsigned sources, struct gpu_set **ret,
                const char **ret_reason)
{
    const char *reason = "no GPU source requested";
    struct gpu_set *set = calloc(1, sizeof(*set));
    if (!set)
        return -ENOMEM;

    int r = open_sources(set, roots, sources, &reason);
    if (r < 0) {
        gpu_set_free(set);
        *ret_reason = r == -ENODEV ? reason : strerror(-r);
        return r;
    }
    *ret = set;
    return 0;
}

void gpu_set_free(struct gpu_set *set)
{
    if (!set)
        return;
    nvml_close(set->nvml);
    drm_cards_close(set->cards);
    close_fd(set->proc_fd);
    free(set);
}

static unsigned count_nvml(const struct gpu_set *set)
{
    return set->nvml ? nvml_count(set->nvml) : 0;
}

unsigned gpu_set_count(const struct gpu_set *set)
{
    return count_nvml(set) + (set->cards ? drm_cards_count(set->cards) : 0);
}

int gpu_set_read(struct gpu_set *set, unsigned index, struct gpu_metric *ret)
{
    unsigned first = count_nvml(set);

    if (index < first)
        return nvml_read(set->nvml, index, ret);
    int r = set->cards ? drm_cards_read(set->cards, index - first, clock_mono_ns(), ret) : -ENODEV;
    if (r == 0)
        ret->index = index;
    return r;
}

static int read_processes(struct gpu_set *set, struct gpu_reading *reading)
{
    int r = 0;

    for (unsigned i = 0; set->knows_pids && i < count_nvml(set) && r == 0; i++)
        r = nvml_read_processes(set->nvml, i, reading);
    if (r == 0 && set->cards)
        r = drm_cards_read_processes(set->cards, clock_mono_ns(), reading);
    return r;
}

int gpu_set_read_all(struct gpu_set *set, struct gpu_reading **ret)
{
    _cleanup_(gpu_reading_freep) struct gpu_reading *reading = gpu_reading_new();
    struct gpu_metric gpu;
    int r = 0;

    if (!reading)
        return -ENOMEM;
    for (unsigned i = 0; i < gpu_set_count(set) && r == 0; i++)
        if (gpu_set_read(set, i, &gpu) == 0) /* a device that fails does not affect the others */
            r = gpu_reading_add(reading, &gpu);
    if (r == 0)
        r = read_processes(set, reading);
    if (r < 0)
        return r;
    gpu_reading_identify(reading, set->proc_fd);
    *ret = TAKE_PTR(reading);
    return 0;
}
