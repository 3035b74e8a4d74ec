#include "engine/gpu/gpu-thread.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/thread.h"

/* State shared by the thread and the loop, under its lock; the one that is done last frees it. */
struct shared {
    enum gpu_source source;
    struct gpu_roots roots;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uv_async_t *answered; /* NULL: the loop has left */
    bool is_querying;     /* a query is running */
    bool is_closing;
    bool has_ended;
    struct gpu_reading *answer; /* NULL: none */
    const char *reason;         /* why there is nothing to read */
};

struct gpu_thread {
    struct gpu_thread_options options;
    struct shared *shared;
    pthread_t thread;
    uv_async_t answered;
};

/* ---- in the thread ---- */

static void shared_free(struct shared *shared)
{
    gpu_reading_free(shared->answer);
    pthread_cond_destroy(&shared->changed);
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

static void wake_loop(const struct shared *shared)
{
    if (shared->answered)
        uv_async_send(shared->answered);
}

/* Serves queries until the end. The lock is held except while the source is read. */
static void serve(struct shared *shared, struct gpu_set *set)
{
    while (!shared->is_closing) {
        if (!shared->is_querying) {
            pthread_cond_wait(&shared->changed, &shared->lock);
            continue;
        }
        struct gpu_reading *reading = NULL;
        pthread_mutex_unlock(&shared->lock);
        gpu_set_read_all(set, &reading); /* NULL without memory */
        pthread_mutex_lock(&shared->lock);
        gpu_reading_free(shared->answer);
        shared->answer = reading;
        shared->is_querying = false;
        wake_loop(shared);
    }
}

static void *run_thread(void *argument)
{
    struct shared *shared = argument;
    struct gpu_set *set = NULL;
    const char *reason = NULL;

    int r = gpu_set_new(&shared->roots, GPU_SOURCE_BIT(shared->source), &set, &reason);
    pthread_mutex_lock(&shared->lock);
    if (r == 0)
        serve(shared, set);
    pthread_mutex_unlock(&shared->lock);
    gpu_set_free(set);

    pthread_mutex_lock(&shared->lock);
    shared->has_ended = true;
    shared->reason = r < 0 ? (reason ? reason : "no memory left") : NULL;
    bool is_abandoned = !shared->answered;
    wake_loop(shared);
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
    if (is_abandoned)
        shared_free(shared);
    return NULL;
}

/* ---- in the loop ---- */

static void on_answered(uv_async_t *async)
{
    struct gpu_thread *thread = async->data;
    struct shared *shared = thread->shared;

    if (!shared) /* it is being closed */
        return;
    pthread_mutex_lock(&shared->lock);
    struct gpu_reading *answer = TAKE_PTR(shared->answer);
    const char *reason = shared->reason;
    bool has_ended = shared->has_ended, is_closing = shared->is_closing;
    pthread_mutex_unlock(&shared->lock);
    if (answer && is_closing)
        gpu_reading_free(answer);
    else if (answer)
        thread->options.on_answer(thread->options.context, answer);
    if (has_ended)
        thread->options.on_end(thread->options.context, is_closing ? NULL : reason);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

int gpu_thread_start(uv_loop_t *loop, const struct gpu_thread_options *options,
                     struct gpu_thread **ret)
{
    static const char *const names[] = {
        [GPU_SOURCE_NVML] = "sonde-nvml", [GPU_SOURCE_DRM] = "sonde-drm"};
    struct gpu_thread *thread = calloc(1, sizeof(*thread));
    if (!thread)
        return -ENOMEM;

    thread->options = *options;
    int r = uv_async_init(loop, &thread->answered, on_answered);
    if (r < 0) {
        free(thread);
        return r;
    }
    thread->answered.data = thread;
    struct shared *shared = thread->shared = calloc(1, sizeof(*shared));
    if (shared) {
        shared->source = options->source;
        shared->roots = options->roots;
        shared->answered = &thread->answered;
        shared->is_querying = true;
        pthread_mutex_init(&shared->lock, NULL);
        cond_init(&shared->changed);
    }
    r = shared ? thread_start(&thread->thread, names[options->source], run_thread, shared)
               : -ENOMEM;
    if (r < 0) {
        if (shared)
            shared_free(TAKE_PTR(thread->shared));
        uv_close((uv_handle_t *)&thread->answered, on_closed);
        return r;
    }
    *ret = thread;
    return 0;
}

void gpu_thread_query(struct gpu_thread *thread)
{
    struct shared *shared = thread->shared;

    pthread_mutex_lock(&shared->lock);
    if (!shared->is_querying && !shared->has_ended) {
        shared->is_querying = true;
        pthread_cond_broadcast(&shared->changed);
    }
    pthread_mutex_unlock(&shared->lock);
}

void gpu_thread_end(struct gpu_thread *thread)
{
    struct shared *shared = thread->shared;

    pthread_mutex_lock(&shared->lock);
    shared->is_closing = true;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
}

void gpu_thread_close(struct gpu_thread *thread)
{
    if (!thread)
        return;
    struct shared *shared = TAKE_PTR(thread->shared);

    pthread_mutex_lock(&shared->lock);
    shared->is_closing = true;
    shared->answered = NULL;
    bool has_ended = shared->has_ended;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
    if (has_ended) {
        pthread_join(thread->thread, NULL);
        shared_free(shared);
    } else {
        thread_abandon(thread->thread);
    }
    uv_close((uv_handle_t *)&thread->answered, on_closed);
}
