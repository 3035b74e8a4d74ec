/* For the tests of AMD's and Intel's cards and of the processes that use them: the content of their
 * device files, and a function that reads all of them. */
#pragma once

#include "unit.h"

#include "base/clock.h"
#include "gpu-world.h"
#include "probe/gpu/drm-clients.h"

#define SECOND NS_PER_SEC
/* The time between readings whose rates are compared. It is so long that the time of a walk has no
 * effect. */
#define AGE (1000 * SECOND)

#define WORLD_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, gpu_world_make, gpu_world_remove)

/* The fdinfo of a client, with engine times in seconds and memory in MiB. */
#define I915_CLIENT(id, render, video, memory)                                                     \
    "drm-driver:\ti915\ndrm-client-id:\t" #id "\ndrm-pdev:\t0000:00:02.0\n"                        \
    "drm-resident-system0:\t" #memory " MiB\ndrm-engine-render:\t" #render "000000000 ns\n"        \
    "drm-engine-video:\t" #video "000000000 ns\ndrm-engine-capacity-video:\t2\n"

/* The card that the clients use. */
extern const struct drm_device i915;

/* Fails the test on an error. */
struct drm_clients *new_clients(const struct gpu_world *world);

/* Walks through all processes. */
double busy_of(struct drm_clients *clients, const struct drm_device *device, unsigned age);

/* Makes `self` in the fake /proc, for this process. */
void link_self(const struct gpu_world *world);
