/* Opens the kernel probe beside the loop: a tenth of a second of CPU that nobody has to wait for.
 *
 * It is begun after a while only, so that a command that is over by then pays nothing for it. */
#pragma once

#include <uv.h>

#include "probe/bpf/kernel-probe.h"

struct kernel_loader;

struct kernel_loader_options {
    struct kernel_probe_options probe;
    uint64_t delay_ms;
    /* Asked before it is begun: whether it is still wanted. */
    bool (*is_wanted)(void *context);
    /* In the loop: the probe is the receiver's; NULL: there is none, and why. */
    void (*on_loaded)(void *context, struct kernel_probe *kernel,
                      const struct kernel_refusal *refusal);
    void *context;
};

/* 0 or a negative errno. */
int kernel_loader_start(uv_loop_t *loop, const struct kernel_loader_options *options,
                        struct kernel_loader **ret);
/* What is still being opened is left to itself, and closed when it is there. */
void kernel_loader_close(struct kernel_loader *loader);
