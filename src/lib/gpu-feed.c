#include "lib/gpu-feed.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "probe/gpu/gpu.h"

/* How long a driver may take to come back when it is not wanted any more. */
#define DRIVER_PATIENCE_NS NS_PER_SEC

struct gpu_feed {
    struct sonde_gpu_source source;
    bool is_builtin;
    unsigned gpu_index;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;

    /* under the lock */
    bool is_asked; /* and not yet answered */
    bool is_closing;
    bool has_ended;
    bool is_left; /* by its owner: the thread frees it */
    struct gpu_figures figures;
};

int gpu_feed_open_builtin(struct gpu_set **ret)
{
    const struct gpu_roots roots = {.proc = "/proc", .sys = "/sys", .dev = "/dev"};
    const char *reason;

    return gpu_set_new(&roots, GPU_SOURCES_ALL, ret, &reason);
}

/* ---- asking ---- */

/* A figure that cannot be, because it is infinite or less than nothing, is none. */
static double plausible(double figure)
{
    return isfinite(figure) && figure >= 0 ? figure : REAL_UNKNOWN;
}

static double ask_one(int (*function)(void *context, double *ret), void *context)
{
    double value;

    return function && function(context, &value) >= 0 ? plausible(value) : REAL_UNKNOWN;
}

static struct gpu_figures ask_source(const struct sonde_gpu_source *source)
{
    return (struct gpu_figures){
        .util = ask_one(source->utilization, source->context),
        .mem_mb = ask_one(source->memory, source->context),
        .clock_mhz = ask_one(source->clock, source->context),
        .power_w = ask_one(source->power, source->context),
    };
}

static struct gpu_figures ask_builtin(struct gpu_set *gpus, unsigned index)
{
    struct gpu_metric metric;

    if (!gpus || gpu_set_read(gpus, index, &metric) < 0)
        return GPU_FIGURES_UNKNOWN;
    return (struct gpu_figures){
        .util = plausible(metric.utilization_pct),
        .mem_mb = plausible(metric.memory_used_mb),
        .clock_mhz = plausible(metric.clock_mhz),
        .power_w = plausible(metric.power_w),
    };
}

/* Answers questions until it is told to end. With the lock held, but for the asking itself. */
static void serve(struct gpu_feed *feed, struct gpu_set *gpus)
{
    while (!feed->is_closing) {
        if (!feed->is_asked) {
            pthread_cond_wait(&feed->changed, &feed->lock);
            continue;
        }
        pthread_mutex_unlock(&feed->lock);
        struct gpu_figures figures =
            feed->is_builtin ? ask_builtin(gpus, feed->gpu_index) : ask_source(&feed->source);
        pthread_mutex_lock(&feed->lock);
        feed->figures = figures;
        feed->is_asked = false;
        pthread_cond_broadcast(&feed->changed);
    }
}

static void feed_free(struct gpu_feed *feed)
{
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

static void *run_feed(void *argument)
{
    struct gpu_feed *feed = argument;
    struct gpu_set *gpus = NULL;

    if (feed->is_builtin)
        gpu_feed_open_builtin(&gpus); /* without any, its figures stay unknown */
    pthread_mutex_lock(&feed->lock);
    serve(feed, gpus);
    pthread_mutex_unlock(&feed->lock);
    gpu_set_free(gpus);

    pthread_mutex_lock(&feed->lock);
    feed->has_ended = true;
    bool is_left = feed->is_left;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    if (is_left)
        feed_free(feed);
    return NULL;
}

/* ---- its owner's side ---- */

int gpu_feed_new(const struct sonde_gpu_source *source, unsigned gpu_index, struct gpu_feed **ret)
{
    struct gpu_feed *feed = calloc(1, sizeof(*feed));
    if (!feed)
        return -ENOMEM;

    feed->is_builtin = !source;
    feed->gpu_index = gpu_index;
    feed->figures = GPU_FIGURES_UNKNOWN;
    if (source)
        feed->source = *source;
    pthread_mutex_init(&feed->lock, NULL);
    cond_init(&feed->changed);
    int r = thread_start(&feed->thread, "sonde-gpu", run_feed, feed);
    if (r < 0) {
        feed_free(feed);
        return r;
    }
    *ret = feed;
    return 0;
}

void gpu_feed_ask(struct gpu_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    if (!feed->is_asked) {
        feed->is_asked = true;
        feed->figures = GPU_FIGURES_UNKNOWN;
        pthread_cond_broadcast(&feed->changed);
    }
    pthread_mutex_unlock(&feed->lock);
}

void gpu_feed_answer(struct gpu_feed *feed, uint64_t patience_ns, struct gpu_figures *ret)
{
    uint64_t deadline_ns = clock_mono_ns() + patience_ns;

    pthread_mutex_lock(&feed->lock);
    while (feed->is_asked && cond_wait_until(&feed->changed, &feed->lock, deadline_ns) == 0)
        ;
    *ret = feed->is_asked ? GPU_FIGURES_UNKNOWN : feed->figures;
    pthread_mutex_unlock(&feed->lock);
}

void gpu_feed_close(struct gpu_feed *feed)
{
    if (!feed)
        return;
    uint64_t deadline_ns = clock_mono_ns() + DRIVER_PATIENCE_NS;
    pthread_t thread = feed->thread;

    pthread_mutex_lock(&feed->lock);
    feed->is_closing = true;
    pthread_cond_broadcast(&feed->changed);
    while (feed->is_builtin && !feed->has_ended &&
           cond_wait_until(&feed->changed, &feed->lock, deadline_ns) == 0)
        ;
    feed->is_left = feed->is_builtin && !feed->has_ended;
    bool is_left = feed->is_left;
    pthread_mutex_unlock(&feed->lock);
    if (is_left) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    feed_free(feed);
}

void gpu_feed_forget(struct gpu_feed *feed)
{
    free(feed); /* its lock may be held by nobody, for ever */
}
