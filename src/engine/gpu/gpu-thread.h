/* A source of GPU figures, asked in a thread of its own, because a driver may take long, or hang:
 * then no answer comes, it is not asked again until one does, and nobody waits for it, not even at
 * the end. */
#pragma once

#include <uv.h>

#include "probe/gpu/gpu.h"

struct gpu_thread;

struct gpu_thread_options {
    enum gpu_source source;
    struct gpu_roots roots; /* texts that stay: a driver that hangs keeps the thread */
    /* In the loop. The reading is the receiver's. */
    void (*on_answer)(void *context, struct gpu_reading *reading);
    /* The last that is heard: there is nothing to ask, and why; or NULL: it was to end. */
    void (*on_end)(void *context, const char *reason);
    void *context;
};

/* Opens the source, and asks it for the first time, by and by. 0 or a negative errno. */
int gpu_thread_start(uv_loop_t *loop, const struct gpu_thread_options *options,
                     struct gpu_thread **ret);
/* It lets go of the driver as soon as that answers, and tells then. */
void gpu_thread_end(struct gpu_thread *thread);
/* One that has not ended yet is left to itself: nobody waits for a driver. */
void gpu_thread_close(struct gpu_thread *thread);

/* Begins a question, unless the last one is still open. */
void gpu_thread_ask(struct gpu_thread *thread);
