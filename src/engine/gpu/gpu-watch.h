/* The GPUs in each snapshot: finds the sources, queries them shortly before each snapshot, and puts
 * their latest readings into it.
 *
 *     NVML (a thread) or nvidia-smi (a helper) \
 *                                                 > latest readings -> snapshot.gpus, processes
 *     the kernel's cards (a thread)            /
 *
 * The figures of a source that does not answer are unknown; its devices are still listed. It blocks
 * neither the loop nor the other source. Without a device there is no thread, and one search a
 * minute. */
#pragma once

#include "config/config.h"
#include "engine/gpu/gpu-smi.h"
#include "probe/gpu/gpu.h"

struct gpu_watch;

struct gpu_watch_options {
    struct gpu_roots roots;  /* static texts */
    struct helpers *helpers; /* borrowed; closed right after the watch */
    uint64_t delay_ms;       /* the search for devices starts after this time, … */
    /* … once this returns true; called at each snapshot until then. NULL: true. */
    bool (*may_begin)(void *context);
    /* GPUs are required and there are none: called once, with the reason. May be NULL. */
    void (*on_none)(void *context, const char *reason);
    void *context;
};

/* Creates the watch, which does nothing until it is configured. Returns 0 or a negative errno. */
int gpu_watch_new(uv_loop_t *loop, const struct gpu_watch_options *options, struct gpu_watch **ret);
void gpu_watch_close(struct gpu_watch *watch);

/* Sets whether GPUs are read: `auto`: if there is a device; on: in any case; off: never. Off also
 * ends the sources. */
void gpu_watch_configure(struct gpu_watch *watch, enum auto_switch choice);

/* Puts the latest readings into the snapshot and schedules the next query. Returns 0, or -ENOMEM
 * with the devices that fitted. */
int gpu_watch_fill(struct gpu_watch *watch, uint64_t mono_ns, uint64_t interval_ns,
                   struct snapshot *snapshot);

/* Writes the sources of the figures, or why there are none. */
#define GPU_TEXT_SIZE 384
void gpu_watch_describe(const struct gpu_watch *watch, char ret[static GPU_TEXT_SIZE]);
