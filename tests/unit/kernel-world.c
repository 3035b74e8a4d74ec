#include "kernel-world.h"

#include <stdio.h>

#include "base/macros.h"
#include "config/paths.h"

struct kernel_probe *probe;

int kernel_world_set_up(void **state _unused_)
{
    return kernel_probe_open(&(struct kernel_probe_options){.proc_root = PROC_ROOT}, &probe,
                             &(struct kernel_probe_error){0});
}

int kernel_world_tear_down(void **state _unused_)
{
    kernel_probe_close(probe);
    return 0;
}

bool kernel_world_is_allowed(void)
{
    struct kernel_probe_error refusal;
    bool is_allowed = kernel_probe_is_allowed(PROC_ROOT, &refusal);

    if (!is_allowed)
        printf("1..0 # SKIP the kernel collector is not available: %s\n", refusal.text);
    return is_allowed;
}
