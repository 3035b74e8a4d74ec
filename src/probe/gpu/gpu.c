#include "probe/gpu/gpu.h"

#include <errno.h>
#include <stdlib.h>

#include "probe/gpu/nvml.h"

struct gpu_set {
    struct nvml *nvml;
};

int gpu_set_new(struct gpu_set **ret)
{
    struct gpu_set *set = calloc(1, sizeof(*set));
    if (!set)
        return -ENOMEM;

    int r = nvml_open(&set->nvml);
    if (r < 0) {
        gpu_set_free(set);
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
    free(set);
}

unsigned gpu_set_count(const struct gpu_set *set)
{
    return nvml_count(set->nvml);
}

int gpu_set_read(struct gpu_set *set, unsigned index, struct gpu_metric *ret)
{
    return nvml_read(set->nvml, index, ret);
}
