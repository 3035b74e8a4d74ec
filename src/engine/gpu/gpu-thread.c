#include "engine/gpu/gpu-thread.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/thread.h"

/* What the thread and the loop share, under its lock: freed by whoever leaves last. */
struct talk {
    enum gpu_source source;
    struct gpu_roots roots;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uv_async_t *answered; /* NULL: the loop has left */
    bool is_asked;        /* and not yet answered */
    bool is_closing;
    bool has_ended;
    struct gpu_reading *answer; /* NULL: none waits */
    const char *reason;         /* why there is nothing to ask */
};

struct gpu_thread {
    struct gpu_thread_options options;
    struct talk *talk;
    pthread_t thread;
    uv_async_t answered;
};

/* ---- in the thread ---- */

static void talk_free(struct talk *talk)
{
    gpu_reading_free(talk->answer);
    pthread_cond_destroy(&talk->changed);
    pthread_mutex_destroy(&talk->lock);
    free(talk);
}

static void wake_loop(const struct talk *talk)
{
    if (talk->answered)
        uv_async_send(talk->answered);
}

/* Answers until it is told to end. With the lock held, but for the asking itself. */
static void serve(struct talk *talk, struct gpu_set *set)
{
    while (!talk->is_closing) {
        if (!talk->is_asked) {
            pthread_cond_wait(&talk->changed, &talk->lock);
            continue;
        }
        struct gpu_reading *reading = NULL;
        pthread_mutex_unlock(&talk->lock);
        gpu_set_take(set, &reading); /* without memory there is none this time */
        pthread_mutex_lock(&talk->lock);
        gpu_reading_free(talk->answer);
        talk->answer = reading;
        talk->is_asked = false;
        wake_loop(talk);
    }
}

static void *run_thread(void *argument)
{
    struct talk *talk = argument;
    struct gpu_set *set = NULL;
    const char *reason = NULL;

    int r = gpu_set_new(&talk->roots, GPU_SOURCE_BIT(talk->source), &set, &reason);
    pthread_mutex_lock(&talk->lock);
    if (r == 0)
        serve(talk, set);
    pthread_mutex_unlock(&talk->lock);
    gpu_set_free(set);

    pthread_mutex_lock(&talk->lock);
    talk->has_ended = true;
    talk->reason = r < 0 ? (reason ? reason : "no memory left") : NULL;
    bool is_left = !talk->answered;
    wake_loop(talk);
    pthread_cond_broadcast(&talk->changed);
    pthread_mutex_unlock(&talk->lock);
    if (is_left)
        talk_free(talk);
    return NULL;
}

/* ---- in the loop ---- */

static void on_answered(uv_async_t *async)
{
    struct gpu_thread *thread = async->data;
    struct talk *talk = thread->talk;

    if (!talk) /* it is being closed */
        return;
    pthread_mutex_lock(&talk->lock);
    struct gpu_reading *answer = TAKE_PTR(talk->answer);
    const char *reason = talk->reason;
    bool has_ended = talk->has_ended, is_closing = talk->is_closing;
    pthread_mutex_unlock(&talk->lock);
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

static struct talk *talk_new(const struct gpu_thread_options *options, uv_async_t *answered)
{
    struct talk *talk = calloc(1, sizeof(*talk));

    if (!talk)
        return NULL;
    talk->source = options->source;
    talk->roots = options->roots;
    talk->answered = answered;
    talk->is_asked = true;
    pthread_mutex_init(&talk->lock, NULL);
    cond_init(&talk->changed);
    return talk;
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
    thread->talk = talk_new(options, &thread->answered);
    r = thread->talk
            ? thread_start(&thread->thread, names[options->source], run_thread, thread->talk)
            : -ENOMEM;
    if (r < 0) {
        if (thread->talk)
            talk_free(TAKE_PTR(thread->talk));
        uv_close((uv_handle_t *)&thread->answered, on_closed);
        return r;
    }
    *ret = thread;
    return 0;
}

void gpu_thread_ask(struct gpu_thread *thread)
{
    struct talk *talk = thread->talk;

    pthread_mutex_lock(&talk->lock);
    if (!talk->is_asked && !talk->has_ended) {
        talk->is_asked = true;
        pthread_cond_broadcast(&talk->changed);
    }
    pthread_mutex_unlock(&talk->lock);
}

void gpu_thread_end(struct gpu_thread *thread)
{
    struct talk *talk = thread->talk;

    pthread_mutex_lock(&talk->lock);
    talk->is_closing = true;
    pthread_cond_broadcast(&talk->changed);
    pthread_mutex_unlock(&talk->lock);
}

void gpu_thread_close(struct gpu_thread *thread)
{
    if (!thread)
        return;
    struct talk *talk = TAKE_PTR(thread->talk);

    pthread_mutex_lock(&talk->lock);
    talk->is_closing = true;
    talk->answered = NULL;
    bool has_ended = talk->has_ended;
    pthread_cond_broadcast(&talk->changed);
    pthread_mutex_unlock(&talk->lock);
    if (has_ended) {
        pthread_join(thread->thread, NULL);
        talk_free(talk);
    } else {
        thread_leave(thread->thread);
    }
    uv_close((uv_handle_t *)&thread->answered, on_closed);
}
