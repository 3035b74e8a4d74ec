#include "lib/gpu-feed.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "probe/gpu/gpu.h"

/* How long gpu_feed_close() waits for a driver. */
#define DRIVER_PATIENCE_NS NS_PER_SEC

struct gpu_feed {
    struct sonde_gpu_source source;
    bool is_builtin;
    unsigned gpu_index;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;

    /* under the lock */
    bool is_requested; /* a request is pending */
    bool is_closing;
    bool has_ended;
    bool is_abandoned; /* by its owner: the thread frees the feed */
    struct gpu_figures figures;
};

int gpu_feed_open_builtin(struct gpu_set **ret)
{
    const struct gpu_roots roots = {.proc = "/proc", .sys = "/sys", .dev = "/dev"};
    const char *reason;

    return gpu_set_new(&roots, GPU_SOURCES_ALL, ret, &reason);
}

/* ---- the thread ---- */

/* An infinite or negative figure is unknown. */
static double valid_or_unknown(double figure)
{
    return isfinite(figure) && figure >= 0 ? figure : REAL_UNKNOWN;
}

static double read_figure(int (*function)(void *context, double *ret), void *context)
{
    double value;

    return function && function(context, &value) >= 0 ? valid_or_unknown(value) : REAL_UNKNOWN;
}

static struct gpu_figures read_source(const struct sonde_gpu_source *source)
{
    return (struct gpu_figures){
        .util = read_figure(source->utilization, source->context),
        .mem_mb = read_figure(source->memory, source->context),
        .clock_mhz = read_figure(source->clock, source->context),
        .power_w = read_figure(source->power, source->context),
    };
}

static struct gpu_figures read_builtin(struct gpu_set *gpus, unsigned index)
{
    struct gpu_metric metric;

    if (!gpus || gpu_set_read(gpus, index, &metric) < 0)
        return GPU_FIGURES_UNKNOWN;
    return (struct gpu_figures){
        .util = valid_or_unknown(metric.utilization_pct),
        .mem_mb = valid_or_unknown(metric.memory_used_mb),
        .clock_mhz = valid_or_unknown(metric.clock_mhz),
        .power_w = valid_or_unknown(metric.power_w),
    };
}

/* Answers requests until the feed is closed. Called with the lock held, which it releases while it
 * reads. */
static void serve_requests(struct gpu_feed *feed, struct gpu_set *gpus)
{
    while (!feed->is_closing) {
        if (!feed->is_requested) {
            pthread_cond_wait(&feed->changed, &feed->lock);
            continue;
        }
        pthread_mutex_unlock(&feed->lock);
        struct gpu_figures figures =
            feed->is_builtin ? read_builtin(gpus, feed->gpu_index) : read_source(&feed->source);
        pthread_mutex_lock(&feed->lock);
        feed->figures = figures;
        feed->is_requested = false;
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
        gpu_feed_open_builtin(&gpus); /* on failure the figures stay unknown */
    pthread_mutex_lock(&feed->lock);
    serve_requests(feed, gpus);
    pthread_mutex_unlock(&feed->lock);
    gpu_set_free(gpus);

    pthread_mutex_lock(&feed->lock);
    feed->has_ended = true;
    bool is_abandoned = feed->is_abandoned;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    if (is_abandoned)
        feed_free(feed);
    return NULL;
}

/* ---- the owner ---- */

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

void gpu_feed_request(struct gpu_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    if (!feed->is_requested) {
        feed->is_requested = true;
        feed->figures = GPU_FIGURES_UNKNOWN;
        pthread_cond_broadcast(&feed->changed);
    }
    pthread_mutex_unlock(&feed->lock);
}

void gpu_feed_await(struct gpu_feed *feed, uint64_t patience_ns, struct gpu_figures *ret)
{
    uint64_t deadline_ns = clock_mono_ns() + patience_ns;

    pthread_mutex_lock(&feed->lock);
    while (feed->is_requested && cond_wait_until(&feed->changed, &feed->lock, deadline_ns) == 0)
        ;
    *ret = feed->is_requested ? GPU_FIGURES_UNKNOWN : feed->figures;
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
    feed->is_abandoned = feed->is_builtin && !feed->has_ended;
    bool is_abandoned = feed->is_abandoned;
    pthread_mutex_unlock(&feed->lock);
    if (is_abandoned) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    feed_free(feed);
}

void gpu_feed_free_after_fork(struct gpu_feed *feed)
{
    free(feed); /* its lock may be held by a thread that does not exist here */
}
