#include "gpu-clients-world.h"

#include <stdio.h>
#include <unistd.h>

const struct drm_device i915 = {.pdev = "0000:00:02.0", .card = 0, .render = 128};

struct drm_clients *new_clients(const struct gpu_world *world)
{
    struct drm_clients *clients = NULL;

    assert_int_equal(drm_clients_new(world->proc, &clients), 0);
    return clients;
}

double busy_of(struct drm_clients *clients, const struct drm_device *device, unsigned age)
{
    drm_clients_update(clients, age * AGE, NULL, 0);
    return drm_clients_busy_pct(clients, device);
}

void link_self(const struct gpu_world *world)
{
    char path[PATH_MAX], pid[16];

    snprintf(path, sizeof(path), "%s/self", world->proc);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    assert_int_equal(symlink(pid, path), 0);
}
