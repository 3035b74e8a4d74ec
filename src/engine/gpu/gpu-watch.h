/* The GPUs in each snapshot: decides which sources there are, has them asked shortly before each
 * snapshot, and puts their latest answers into it.
 *
 *     NVML (a thread) or nvidia-smi (a helper) \
 *                                                 > latest readings -> snapshot.gpus, processes
 *     the kernel's cards (a thread)            /
 *
 * A source that does not answer is unknown in the snapshot, not as it was: its devices are named,
 * without figures. It takes neither the loop nor the other source with it. Where there is no device
 * there is no thread, and a look for one a minute. */
#pragma once

#include "config/config.h"
#include "engine/gpu/gpu-smi.h"
#include "probe/gpu/gpu.h"

struct gpu_watch;

struct gpu_watch_options {
    struct gpu_roots roots;  /* texts that stay */
    struct helpers *helpers; /* not its own: to be closed right after it */
    uint64_t delay_ms;       /* nothing is looked for before */
    /* … nor until this is so, which is asked at each snapshot then. NULL: it is. */
    bool (*may_begin)(void *context);
    /* GPUs were asked for, and there are none: once, and why. May be NULL. */
    void (*on_none)(void *context, const char *reason);
    void *context;
};

/* Does nothing until it is configured. 0 or a negative errno. */
int gpu_watch_new(uv_loop_t *loop, const struct gpu_watch_options *options, struct gpu_watch **ret);
void gpu_watch_close(struct gpu_watch *watch);

/* `auto`: if a device is there; on: asks even so; off: asks nobody, and ends what it had. */
void gpu_watch_configure(struct gpu_watch *watch, enum auto_switch choice);

/* Puts what is known into the snapshot, and plans what is asked for the next. 0 or -ENOMEM, with
 * those in it that there was memory for. */
int gpu_watch_fill(struct gpu_watch *watch, uint64_t mono_ns, uint64_t interval_ns,
                   struct snapshot *snapshot);

/* Where figures come from, or why there are none. */
#define GPU_WORDS_SIZE 384
void gpu_watch_describe(const struct gpu_watch *watch, char ret[static GPU_WORDS_SIZE]);
