#include "run/kernel-loader.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/thread.h"

/* State shared by the thread and the loop; the one that is done last frees it. */
struct load {
    pthread_mutex_t lock;
    uv_async_t *done; /* NULL: the loop has left */
    bool is_over;     /* the thread has ended, or was never begun */
    struct kernel_probe_options options;
    struct kernel_probe *kernel;
    struct kernel_probe_error refusal;
};

struct kernel_loader {
    struct kernel_loader_options options;
    struct load *load;
    uv_timer_t delay;
    uv_async_t done;
    int open_handles;
};

static void load_free(struct load *load)
{
    kernel_probe_close(load->kernel);
    pthread_mutex_destroy(&load->lock);
    free(load);
}

static void *run_thread(void *argument)
{
    struct load *load = argument;
    struct kernel_probe *kernel = NULL;

    if (kernel_probe_open(&load->options, &kernel, &load->refusal) < 0)
        kernel = NULL;
    pthread_mutex_lock(&load->lock);
    load->kernel = kernel;
    load->is_over = true;
    bool is_awaited = load->done != NULL;
    if (is_awaited)
        uv_async_send(load->done);
    pthread_mutex_unlock(&load->lock);
    if (!is_awaited)
        load_free(load);
    return NULL;
}

static void on_done(uv_async_t *async)
{
    struct kernel_loader *loader = async->data;
    struct load *load = loader->load;

    pthread_mutex_lock(&load->lock);
    bool is_over = load->is_over;
    struct kernel_probe *kernel = TAKE_PTR(load->kernel);
    pthread_mutex_unlock(&load->lock);
    if (is_over)
        loader->options.on_loaded(loader->options.context, kernel, &load->refusal);
}

static void on_delay_over(uv_timer_t *timer)
{
    struct kernel_loader *loader = timer->data;

    enum kernel_decision decision = loader->options.decide(loader->options.context);
    if (decision == KERNEL_UNDECIDED)
        uv_timer_start(timer, on_delay_over, loader->options.delay_ms, 0);
    if (decision != KERNEL_WANTED)
        return;
    pthread_t thread;
    loader->load->is_over = false;
    if (thread_start(&thread, "sonde-kernel", run_thread, loader->load) < 0)
        loader->load->is_over = true;
    else
        pthread_detach(thread);
}

int kernel_loader_start(uv_loop_t *loop, const struct kernel_loader_options *options,
                        struct kernel_loader **ret)
{
    _cleanup_free_ struct kernel_loader *loader = calloc(1, sizeof(*loader));
    _cleanup_free_ struct load *load = calloc(1, sizeof(*load));
    if (!loader || !load)
        return -ENOMEM;

    int r = uv_async_init(loop, &loader->done, on_done);
    if (r < 0)
        return r;
    uv_timer_init(loop, &loader->delay);
    loader->done.data = loader->delay.data = loader;
    loader->open_handles = 2;
    loader->options = *options;
    pthread_mutex_init(&load->lock, NULL);
    load->done = &loader->done;
    load->is_over = true;
    load->options = options->probe;
    loader->load = TAKE_PTR(load);
    uv_timer_start(&loader->delay, on_delay_over, options->delay_ms, 0);
    *ret = TAKE_PTR(loader);
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct kernel_loader *loader = handle->data;

    if (--loader->open_handles == 0)
        free(loader);
}

void kernel_loader_close(struct kernel_loader *loader)
{
    if (!loader)
        return;
    struct load *load = loader->load;
    pthread_mutex_lock(&load->lock);
    bool is_over = load->is_over;
    load->done = NULL;
    pthread_mutex_unlock(&load->lock);
    if (is_over)
        load_free(load);
    uv_close((uv_handle_t *)&loader->delay, on_closed);
    uv_close((uv_handle_t *)&loader->done, on_closed);
}
