/* For the tests of AMD's and Intel's cards and of who uses them: what such a user's file says, and
 * reads all of them. */
#pragma once

#include "unit.h"

#include "base/clock.h"
#include "gpu-world.h"
#include "probe/gpu/drm-clients.h"

#define SECOND NS_PER_SEC
/* Between looks whose rates are compared: the time of a walk is part of what they are over, and
 * nothing next to this. */
#define AGE (1000 * SECOND)

#define WORLD_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, gpu_world_make, gpu_world_remove)

/* Seconds and MiB. */
#define I915_CLIENT(id, render, video, memory)                                                     \
    "drm-driver:\ti915\ndrm-client-id:\t" #id "\ndrm-pdev:\t0000:00:02.0\n"                        \
    "drm-resident-system0:\t" #memory " MiB\ndrm-engine-render:\t" #render "000000000 ns\n"        \
    "drm-engine-video:\t" #video "000000000 ns\ndrm-engine-capacity-video:\t2\n"

/* The card that the clients are of. */
extern const struct drm_device i915;

/* Fails the test if it cannot be made. */
struct drm_clients *new_clients(const struct gpu_world *world);

/* With a walk each. */
double busy_of(struct drm_clients *clients, const struct drm_device *device, unsigned age);

/* As the kernel's own tree is: `self`, which is us. */
void link_self(const struct gpu_world *world);
