/* Opens the kernel probe in a thread, because that takes about 30 ms of CPU time. The
 * thread starts after a delay, so that short commands do not have this cost. */
#pragma once

#include <uv.h>

#include "probe/bpf/kernel-probe.h"

struct kernel_loader;

enum kernel_decision {
    KERNEL_UNWANTED,
    KERNEL_UNDECIDED, /* ask again after another delay */
    KERNEL_WANTED,
};

struct kernel_loader_options {
    struct kernel_probe_options probe;
    uint64_t delay_ms;
    /* Called after the delay: returns whether the probe is wanted now. */
    enum kernel_decision (*decide)(void *context);
    /* Called in the loop. The receiver owns the probe; NULL: it could not be opened, with the
     * reason. */
    void (*on_loaded)(void *context, struct kernel_probe *kernel,
                      const struct kernel_probe_error *refusal);
    void *context;
};

/* Starts the delay. Returns 0 or a negative errno. */
int kernel_loader_start(uv_loop_t *loop, const struct kernel_loader_options *options,
                        struct kernel_loader **ret);
/* Frees the loader without waiting: the thread closes a probe that is still being opened. */
void kernel_loader_close(struct kernel_loader *loader);
