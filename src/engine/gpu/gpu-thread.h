/* A source of GPU figures, read in a thread of its own, because a driver may be slow or hang. While
 * it hangs there is no answer and no further query, and nothing waits for it, not even at the end.
 */
#pragma once

#include <uv.h>

#include "probe/gpu/gpu.h"

struct gpu_thread;

struct gpu_thread_options {
    enum gpu_source source;
    struct gpu_roots roots; /* static texts, because a thread that hangs outlives its owner */
    /* Called in the loop. The receiver owns the reading. */
    void (*on_answer)(void *context, struct gpu_reading *reading);
    /* The last callback: the source has nothing to read, with the reason; NULL after
     * gpu_thread_end(). */
    void (*on_end)(void *context, const char *reason);
    void *context;
};

/* Starts the thread, which opens the source and reads it for the first time. Returns 0 or a
 * negative errno. */
int gpu_thread_start(uv_loop_t *loop, const struct gpu_thread_options *options,
                     struct gpu_thread **ret);
/* Ends the thread: closes the source as soon as it answers, then calls on_end. */
void gpu_thread_end(struct gpu_thread *thread);
/* Frees the object without waiting: a thread that has not ended is detached, and frees its memory
 * itself. */
void gpu_thread_close(struct gpu_thread *thread);

/* Starts a query, unless the last one is still running. */
void gpu_thread_query(struct gpu_thread *thread);
