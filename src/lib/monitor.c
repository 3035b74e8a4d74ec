/* The monitor: a thread that takes samples at fixed times, and callers that start, stop, mark
 * phases and read results.
 *
 *     start, mark, stop --+                  +-- target (the processes) ----+
 *                         +-- take_sample() -+                              +-- commit() -- results
 *     run_sampler() ------+                  +-- gpu feed (another thread) -+
 *
 * Three locks, acquired in this order:
 *   control    start and stop, one at a time
 *   sampling   one reading at a time, so that samples are ordered by time
 *   data       the results; never held during a read or a wait, so that callers get results at once
 *
 * After a fork the child has the memory but not the threads, and locks may stay locked for ever.
 * Every function compares the pid and resets the monitor in a new process. */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "lib/errors.h"
#include "lib/gpu-feed.h"
#include "lib/options.h"
#include "lib/series.h"
#include "lib/target.h"
#include "lib/window.h"
#include "probe/gpu/gpu.h"

/* A tick waits for a GPU at most half its interval, and at most GPU_TICK_NS. The first and the last
 * sample wait longer, because their figures would be missing otherwise. */
#define GPU_TICK_NS (NS_PER_SEC / 4)
#define GPU_EDGE_NS NS_PER_SEC

#define BEING_RESET 0 /* no process has this pid */

struct phase {
    char name[SONDE_PHASE_NAME_SIZE];
    struct window window;
};

struct sonde_monitor {
    struct monitor_options options;

    _Atomic pid_t owner; /* the process that this state belongs to */

    pthread_mutex_t control;
    bool is_started; /* there is a thread to join */
    pthread_t thread;
    sem_t stop; /* ends the thread */

    pthread_mutex_t sampling;
    struct target *target; /* NULL: not started */
    struct gpu_feed *gpu;  /* NULL: not requested */

    pthread_mutex_t data;
    bool is_sampling; /* between start and stop */
    bool is_over;     /* no process is left */
    bool has_last;
    struct target_reading last;
    struct series series;
    struct window whole;
    struct VEC(struct phase) phases;
    bool in_phase; /* the last one is open */
    uint64_t ticks, missed, late_ns, max_late_ns;
};

/* ---- after a fork ---- */

static void init_locks(struct sonde_monitor *monitor)
{
    pthread_mutex_init(&monitor->control, NULL);
    pthread_mutex_init(&monitor->sampling, NULL);
    pthread_mutex_init(&monitor->data, NULL);
    sem_init(&monitor->stop, 0, 0);
}

static void clear_data(struct sonde_monitor *monitor)
{
    monitor->is_sampling = monitor->is_over = false;
    monitor->has_last = monitor->in_phase = false;
    monitor->ticks = monitor->missed = monitor->late_ns = monitor->max_late_ns = 0;
    series_clear(&monitor->series);
    window_init(&monitor->whole);
    monitor->phases.count = 0;
}

/* Data that a thread was changing during the fork cannot be freed and is leaked. If a lock is free,
 * the data that it guards is consistent. */
static void reset_after_fork(struct sonde_monitor *monitor)
{
    if (pthread_mutex_trylock(&monitor->sampling) == 0) {
        target_free(monitor->target);
        gpu_feed_free_after_fork(monitor->gpu);
    }
    if (pthread_mutex_trylock(&monitor->data) == 0)
        VEC_DONE(&monitor->phases);
    memset(&monitor->phases, 0, sizeof(monitor->phases));
    monitor->target = NULL;
    monitor->gpu = NULL;
    monitor->is_started = false;
    clear_data(monitor);
    init_locks(monitor);
}

static void check_fork(struct sonde_monitor *monitor)
{
    pid_t me = getpid(), owner = atomic_load(&monitor->owner);

    if (owner == me)
        return;
    if (owner != BEING_RESET &&
        atomic_compare_exchange_strong(&monitor->owner, &owner, BEING_RESET)) {
        reset_after_fork(monitor);
        atomic_store(&monitor->owner, me);
        return;
    }
    while (atomic_load(&monitor->owner) != me) /* another thread of the child was first */
        sched_yield();
}

/* ---- samples ---- */

static double cpu_percent(const struct sonde_monitor *monitor, const struct target_reading *reading)
{
    const struct target_reading *last = &monitor->last;

    if (!monitor->has_last || !int_is_known(reading->cpu_ns) || !int_is_known(last->cpu_ns) ||
        reading->mono_ns <= last->mono_ns)
        return REAL_UNKNOWN;
    return 100.0 * (double)(reading->cpu_ns - last->cpu_ns) /
           (double)(reading->mono_ns - last->mono_ns);
}

static struct window *open_phase(struct sonde_monitor *monitor)
{
    return monitor->in_phase ? &monitor->phases.items[monitor->phases.count - 1].window : NULL;
}

/* Adds a sample to the results. With `data` held. */
static void commit(struct sonde_monitor *monitor, const struct target_reading *reading,
                   const struct gpu_figures *gpu)
{
    const struct sonde_sample sample = {
        .timestamp = ns_to_sec(reading->mono_ns),
        .cpu_percent = cpu_percent(monitor, reading),
        .rss_mb = bytes_to_mb(reading->rss_bytes),
        .gpu_util = gpu->util,
        .gpu_mem_mb = gpu->mem_mb,
        .gpu_clock_mhz = gpu->clock_mhz,
        .gpu_power_w = gpu->power_w,
    };
    struct window *phase = open_phase(monitor);

    series_add(&monitor->series, &sample);
    window_add(&monitor->whole, reading, gpu);
    if (phase)
        window_add(phase, reading, gpu);
    monitor->last = *reading;
    monitor->has_last = true;
}

/* No process lives: adds their usage up to the end. With `data` held. */
static void commit_end(struct sonde_monitor *monitor, const struct target_reading *reading)
{
    struct window *phase = open_phase(monitor);

    window_add_rest(&monitor->whole, reading);
    if (phase)
        window_add_rest(phase, reading);
    monitor->is_over = true;
}

/* The input of one sample. */
struct measurement {
    struct target_reading reading;
    struct gpu_figures gpu;
};

/* Takes a sample, with `sampling` held. Returns 0, -ESRCH (no process is left) or another negative
 * errno. */
static int take_sample(struct sonde_monitor *monitor, bool thorough, uint64_t gpu_patience_ns,
                       struct measurement *ret)
{
    *ret = (struct measurement){.gpu = GPU_FIGURES_UNKNOWN};
    if (monitor->gpu)
        gpu_feed_request(monitor->gpu);
    int r = target_read(monitor->target, thorough, &ret->reading);
    if (r == 0 && monitor->gpu)
        gpu_feed_await(monitor->gpu, gpu_patience_ns, &ret->gpu);

    pthread_mutex_lock(&monitor->data);
    if (r == 0)
        commit(monitor, &ret->reading, &ret->gpu);
    else if (r == -ESRCH)
        commit_end(monitor, &ret->reading);
    pthread_mutex_unlock(&monitor->data);
    return r;
}

static uint64_t tick_patience_ns(const struct sonde_monitor *monitor)
{
    return MIN(monitor->options.interval_ns / 2, GPU_TICK_NS);
}

/* ---- the sampler ---- */

/* Takes a scheduled sample. Returns whether a process is left. */
static bool tick(struct sonde_monitor *monitor)
{
    struct measurement measured;

    pthread_mutex_lock(&monitor->sampling);
    /* Without memory or descriptors the reading fails; the next tick tries again. */
    int r = take_sample(monitor, false, tick_patience_ns(monitor), &measured);
    pthread_mutex_unlock(&monitor->sampling);
    return r != -ESRCH;
}

/* Returns when the first tick is due; not before now, because the first sample may have waited for
 * a GPU. */
static uint64_t first_due(struct sonde_monitor *monitor)
{
    pthread_mutex_lock(&monitor->data);
    uint64_t due_ns = monitor->last.mono_ns + monitor->options.interval_ns;
    pthread_mutex_unlock(&monitor->data);
    return MAX(due_ns, clock_mono_ns());
}

/* Returns when the next tick is due. The schedule is fixed: missed ticks are skipped and counted.
 */
static uint64_t next_due(uint64_t due_ns, uint64_t interval_ns, uint64_t *ret_missed)
{
    uint64_t now_ns = clock_mono_ns(), next_ns = due_ns + interval_ns;

    *ret_missed = next_ns > now_ns ? 0 : (now_ns - next_ns) / interval_ns + 1;
    return next_ns + *ret_missed * interval_ns;
}

static void record_timing(struct sonde_monitor *monitor, uint64_t late_ns, uint64_t missed)
{
    pthread_mutex_lock(&monitor->data);
    monitor->ticks++;
    monitor->missed += missed;
    monitor->late_ns += late_ns;
    monitor->max_late_ns = MAX(monitor->max_late_ns, late_ns);
    pthread_mutex_unlock(&monitor->data);
}

static void *run_sampler(void *argument)
{
    struct sonde_monitor *monitor = argument;
    uint64_t due_ns = first_due(monitor);
    bool is_over = false;

    while (!is_over && semaphore_wait_until(&monitor->stop, due_ns) == -ETIMEDOUT) {
        uint64_t late_ns = clock_mono_ns() - due_ns, missed;
        is_over = !tick(monitor);
        due_ns = next_due(due_ns, monitor->options.interval_ns, &missed);
        record_timing(monitor, late_ns, missed);
    }
    return NULL;
}

/* ---- new and free ---- */

int sonde_monitor_new(const struct sonde_options *options, struct sonde_monitor **ret,
                      struct sonde_error *error)
{
    struct monitor_options checked;

    int r = options_read(options, &checked, error);
    if (r < 0)
        return r;
    _cleanup_free_ struct sonde_monitor *monitor = calloc(1, sizeof(*monitor));
    if (!monitor || series_init(&monitor->series, checked.max_samples) < 0)
        return error_set(error, -ENOMEM, "out of memory");
    monitor->options = checked;
    atomic_init(&monitor->owner, getpid());
    init_locks(monitor);
    clear_data(monitor);
    *ret = TAKE_PTR(monitor);
    return 0;
}

void sonde_monitor_free(struct sonde_monitor *monitor)
{
    if (!monitor)
        return;
    sonde_monitor_stop(monitor);
    pthread_mutex_destroy(&monitor->control);
    pthread_mutex_destroy(&monitor->sampling);
    pthread_mutex_destroy(&monitor->data);
    sem_destroy(&monitor->stop);
    VEC_DONE(&monitor->phases);
    series_done(&monitor->series);
    free(monitor);
}

/* ---- start and stop ---- */

static int reset_peak(struct sonde_monitor *monitor, struct sonde_error *error)
{
    if (!(monitor->options.flags & SONDE_RESET_PEAK))
        return 0;
    int r = target_reset_peak(monitor->target);
    return r < 0 ? error_set(error, r, "the peak cannot be reset (clear_refs): %s",
                             strerrordesc_np(-r))
                 : 0;
}

/* Resets the peaks at the start. The descendants must be found before. */
static int reset_peak_first(struct sonde_monitor *monitor, struct sonde_error *error)
{
    struct target_reading unused;

    if (monitor->options.flags & SONDE_RESET_PEAK)
        target_read(monitor->target, true, &unused);
    return reset_peak(monitor, error);
}

/* Opens the target and the GPU source, and takes the first sample. With `sampling` held. */
static int open_target(struct sonde_monitor *monitor, struct sonde_error *error)
{
    pid_t pid = monitor->options.pid ? monitor->options.pid : getpid();
    bool wants_gpu =
        monitor->options.has_gpu_source || (monitor->options.flags & SONDE_BUILTIN_GPU);
    struct measurement measured;

    int r = target_new(pid, monitor->options.flags & SONDE_DESCENDANTS, &monitor->target);
    if (r == 0 && wants_gpu)
        r = gpu_feed_new(monitor->options.has_gpu_source ? &monitor->options.gpu_source : NULL,
                         monitor->options.gpu_index, &monitor->gpu);
    if (r < 0)
        return error_explain(error, r, pid);
    r = reset_peak_first(monitor, error);
    if (r < 0)
        return r;
    r = take_sample(monitor, true, GPU_EDGE_NS, &measured);
    return r < 0 ? error_explain(error, r, pid) : 0;
}

/* Reverts open_target(). With `sampling` held. */
static void close_target(struct sonde_monitor *monitor)
{
    gpu_feed_close(monitor->gpu);
    target_free(monitor->target);
    monitor->gpu = NULL;
    monitor->target = NULL;
}

/* With `control` held. */
static int start_sampling(struct sonde_monitor *monitor, struct sonde_error *error)
{
    pthread_mutex_lock(&monitor->data);
    clear_data(monitor);
    pthread_mutex_unlock(&monitor->data);

    pthread_mutex_lock(&monitor->sampling);
    int r = open_target(monitor, error);
    if (r == 0) {
        r = thread_start(&monitor->thread, "sonde", run_sampler, monitor);
        if (r < 0)
            error_explain(error, r, 0);
    }
    if (r < 0)
        close_target(monitor);
    pthread_mutex_unlock(&monitor->sampling);
    monitor->is_started = r == 0;
    pthread_mutex_lock(&monitor->data);
    if (r == 0)
        monitor->is_sampling = true;
    else
        clear_data(monitor); /* a sample may have been taken already */
    pthread_mutex_unlock(&monitor->data);
    return r;
}

/* Ends the sampler thread. With `control` held. */
static void stop_sampling(struct sonde_monitor *monitor)
{
    struct measurement measured;

    pthread_mutex_lock(&monitor->data);
    monitor->is_sampling = false;
    pthread_mutex_unlock(&monitor->data);
    sem_post(&monitor->stop);
    pthread_join(monitor->thread, NULL);
    sem_trywait(&monitor->stop); /* in case the thread had already ended */
    monitor->is_started = false;

    pthread_mutex_lock(&monitor->sampling);
    if (!monitor->is_over)
        take_sample(monitor, true, GPU_EDGE_NS, &measured);
    close_target(monitor);
    pthread_mutex_unlock(&monitor->sampling);
}

int sonde_monitor_start(struct sonde_monitor *monitor, struct sonde_error *error)
{
    int r;

    check_fork(monitor);
    pthread_mutex_lock(&monitor->control);
    if (monitor->is_started && !sonde_monitor_is_running(monitor))
        stop_sampling(monitor);
    if (monitor->is_started)
        r = error_set(error, -EALREADY, "the monitor is running; stop it first");
    else
        r = start_sampling(monitor, error);
    pthread_mutex_unlock(&monitor->control);
    return r;
}

int sonde_monitor_stop(struct sonde_monitor *monitor)
{
    check_fork(monitor);
    pthread_mutex_lock(&monitor->control);
    if (monitor->is_started)
        stop_sampling(monitor);
    pthread_mutex_unlock(&monitor->control);
    return 0;
}

int sonde_monitor_is_running(struct sonde_monitor *monitor)
{
    check_fork(monitor);
    pthread_mutex_lock(&monitor->data);
    bool is_running = monitor->is_sampling && !monitor->is_over;
    pthread_mutex_unlock(&monitor->data);
    return is_running;
}

/* ---- phases ---- */

static int check_name(const char *name, struct sonde_error *error)
{
    size_t length = strlen(name);

    if (length == 0)
        return error_set(error, -EINVAL, "name: is empty");
    if (length >= SONDE_PHASE_NAME_SIZE)
        return error_set(error, -EINVAL, "name: has %zu bytes, but at most %d are allowed", length,
                         SONDE_PHASE_NAME_SIZE - 1);
    if (!utf8_valid(name, length))
        return error_set(error, -EINVAL, "name: is not UTF-8");
    return 0;
}

/* Reserves the memory first, so that nothing fails after the sample. With `data` held. */
static int reserve_phase(struct sonde_monitor *monitor, struct sonde_error *error)
{
    if (monitor->phases.count >= SONDE_PHASES_MAX)
        return error_set(error, -ENOSPC, "the limit of %d phases is reached", SONDE_PHASES_MAX);
    if (VEC_RESERVE(&monitor->phases, monitor->phases.count + 1) < 0)
        return error_set(error, -ENOMEM, "out of memory");
    return 0;
}

/* Ends the current phase and begins `name`, if that is not NULL. The sample between two phases
 * belongs to both. With `data` held. */
static void switch_phase(struct sonde_monitor *monitor, const char *name,
                         const struct measurement *measured)
{
    monitor->in_phase = name != NULL;
    if (!name)
        return;
    struct phase *phase = &monitor->phases.items[monitor->phases.count++];
    memcpy(phase->name, name, strlen(name) + 1);
    window_init(&phase->window);
    window_add(&phase->window, &measured->reading, &measured->gpu);
}

/* With `sampling` held. */
static int mark_phase(struct sonde_monitor *monitor, const char *name, struct sonde_error *error)
{
    struct measurement measured;

    if (!monitor->target)
        return error_set(error, -ESRCH, "the monitor is not running");
    pthread_mutex_lock(&monitor->data);
    int r = name ? reserve_phase(monitor, error) : 0;
    pthread_mutex_unlock(&monitor->data);
    if (r < 0)
        return r;
    r = take_sample(monitor, true, tick_patience_ns(monitor), &measured);
    if (r < 0)
        return error_explain(error, r, monitor->options.pid ? monitor->options.pid : getpid());
    r = reset_peak(monitor, error);
    if (r < 0)
        return r;
    pthread_mutex_lock(&monitor->data);
    switch_phase(monitor, name, &measured);
    pthread_mutex_unlock(&monitor->data);
    return 0;
}

int sonde_monitor_mark(struct sonde_monitor *monitor, const char *name, struct sonde_error *error)
{
    check_fork(monitor);
    int r = name ? check_name(name, error) : 0;
    if (r < 0)
        return r;
    pthread_mutex_lock(&monitor->sampling);
    r = mark_phase(monitor, name, error);
    pthread_mutex_unlock(&monitor->sampling);
    return r;
}

/* ---- results ---- */

int sonde_monitor_samples(struct sonde_monitor *monitor, struct sonde_sample **ret,
                          size_t *ret_count)
{
    struct sonde_sample *samples = NULL;

    check_fork(monitor);
    pthread_mutex_lock(&monitor->data);
    size_t count = series_count(&monitor->series);
    if (count) {
        samples = calloc(count, sizeof(*samples));
        if (samples)
            series_copy(&monitor->series, samples);
    }
    pthread_mutex_unlock(&monitor->data);
    if (count && !samples)
        return -ENOMEM;
    *ret = samples;
    *ret_count = count;
    return 0;
}

int sonde_monitor_summary(struct sonde_monitor *monitor, struct sonde_summary *ret)
{
    check_fork(monitor);
    pthread_mutex_lock(&monitor->data);
    window_sum_up(&monitor->whole, ret);
    pthread_mutex_unlock(&monitor->data);
    return 0;
}

/* With `data` held; `into` has room for all phases. */
static void copy_phases(const struct sonde_monitor *monitor, struct sonde_phase *into)
{
    for (size_t i = 0; i < monitor->phases.count; i++) {
        const struct phase *phase = &monitor->phases.items[i];
        memcpy(into[i].name, phase->name, sizeof(into[i].name));
        into[i].timestamp = ns_to_sec(phase->window.first_ns);
        window_sum_up(&phase->window, &into[i].summary);
    }
}

int sonde_monitor_phases(struct sonde_monitor *monitor, struct sonde_phase **ret, size_t *ret_count)
{
    struct sonde_phase *phases = NULL;

    check_fork(monitor);
    pthread_mutex_lock(&monitor->data);
    size_t count = monitor->phases.count;
    if (count) {
        phases = calloc(count, sizeof(*phases));
        if (phases)
            copy_phases(monitor, phases);
    }
    pthread_mutex_unlock(&monitor->data);
    if (count && !phases)
        return -ENOMEM;
    *ret = phases;
    *ret_count = count;
    return 0;
}

int sonde_monitor_timing(struct sonde_monitor *monitor, struct sonde_timing *ret)
{
    check_fork(monitor);
    pthread_mutex_lock(&monitor->data);
    *ret = (struct sonde_timing){
        .ticks = monitor->ticks,
        .missed = monitor->missed,
        .mean_late_us =
            monitor->ticks ? (double)monitor->late_ns / 1e3 / (double)monitor->ticks : REAL_UNKNOWN,
        .max_late_us = monitor->ticks ? (double)monitor->max_late_ns / 1e3 : REAL_UNKNOWN,
    };
    pthread_mutex_unlock(&monitor->data);
    return 0;
}

/* ---- the rest ---- */

int sonde_gpu_count(void)
{
    struct gpu_set *gpus = NULL;

    if (gpu_feed_open_builtin(&gpus) < 0)
        return 0;
    int count = (int)gpu_set_count(gpus);
    gpu_set_free(gpus);
    return count;
}

const char *sonde_version(void)
{
    return SONDE_VERSION;
}
