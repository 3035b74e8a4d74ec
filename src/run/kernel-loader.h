/* Opens the kernel probe in a thread: it takes a tenth of a second of CPU. It starts after a delay,
 * so that short commands do not pay for it. */
#pragma once

#include <uv.h>

#include "probe/bpf/kernel-probe.h"

struct kernel_loader;

struct kernel_loader_options {
    struct kernel_probe_options probe;
    uint64_t delay_ms;
    /* Called before it starts: whether it is still wanted. */
    bool (*is_wanted)(void *context);
    /* Called in the loop: the receiver owns the probe; NULL: none, with the reason. */
    void (*on_loaded)(void *context, struct kernel_probe *kernel,
                      const struct kernel_probe_error *refusal);
    void *context;
};

/* 0 or a negative errno. */
int kernel_loader_start(uv_loop_t *loop, const struct kernel_loader_options *options,
                        struct kernel_loader **ret);
/* Does not wait: a probe that is still being opened is closed by the thread. */
void kernel_loader_close(struct kernel_loader *loader);
