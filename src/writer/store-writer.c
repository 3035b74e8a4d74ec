/* The callers' side of the writer: it holds the lock only to queue a pointer. */
#include "writer/store-writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/thread.h"
#include "writer/store-writer-options.h"
#include "writer/store-writer-parts.h"

/* SQLite needs most of the stack, some 50 KiB, and sanitizers multiply that. Untouched pages cost
 * nothing. */
#define STACK_BYTES (512 * 1024)
/* How many times pace.stop_ns to wait for a thread that still uses CPU time. */
#define STOP_TIMES_MAX 10
/* A transaction takes milliseconds; a process that is stopped does not wait for a hanging disk. */
#define HOLD_NS (NS_PER_SEC / 2)
/* A message leaves the queue a moment after it was written. */
#define WAIT_STEP_NS (2 * NS_PER_MSEC)

/* ---- the queue ---- */

static enum store_load load_of(const struct store_queue *queue)
{
    return queue->message_bytes > STORE_PENDING_MAX_BYTES     ? STORE_LOAD_FULL
           : queue->message_bytes > STORE_PENDING_HEAVY_BYTES ? STORE_LOAD_HEAVY
                                                              : STORE_LOAD_LIGHT;
}

enum store_load store_writer_load(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    enum store_load load = load_of(&writer->queue);
    pthread_mutex_unlock(&writer->lock);
    return load;
}

static int push(struct store_writer *writer, struct store_message *message)
{
    if (!message)
        return -ENOMEM;
    pthread_mutex_lock(&writer->lock);
    bool is_closed = writer->queue.is_closed;
    if (!is_closed) {
        store_queue_push(&writer->queue, message);
        writer->was_heavy |= load_of(&writer->queue) != STORE_LOAD_LIGHT;
        pthread_cond_signal(&writer->wake);
    }
    pthread_mutex_unlock(&writer->lock);
    if (is_closed)
        store_message_free(message);
    return 0;
}

void store_writer_tick(struct store_writer *writer, struct tick_box *box)
{
    pthread_mutex_lock(&writer->lock);
    bool is_queued = store_queue_push_tick(&writer->queue, box);
    if (is_queued)
        pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    if (!is_queued)
        tick_box_free(box);
}

int store_writer_begin_job(struct store_writer *writer, const struct job *job)
{
    return push(writer, store_message_of_job(STORE_MESSAGE_BEGIN_JOB, job));
}

int store_writer_finish_job(struct store_writer *writer, const struct job *job)
{
    return push(writer, store_message_of_job(STORE_MESSAGE_FINISH_JOB, job));
}

int store_writer_sheet(struct store_writer *writer, const struct sheet *sheet)
{
    return push(writer, store_message_of_sheet(sheet));
}

int store_writer_configure(struct store_writer *writer, const struct retention_config *retention)
{
    return push(writer, store_message_of_settings(retention));
}

int store_writer_renew_patterns(struct store_writer *writer, const char *pattern_type,
                                const struct pattern_list *patterns)
{
    struct store_message *message = store_message_of_patterns(pattern_type, patterns);

    if (!message)
        return -ENOMEM;
    pthread_mutex_lock(&writer->lock);
    struct store_message *older = store_queue_remove_patterns(&writer->queue);
    pthread_mutex_unlock(&writer->lock);
    store_message_free(older);
    return push(writer, message);
}

/* ---- start, hold, stop ---- */

void store_writer_free(struct store_writer *writer)
{
    store_queue_done(&writer->queue);
    pthread_mutex_destroy(&writer->lock);
    pthread_cond_destroy(&writer->wake);
    pthread_cond_destroy(&writer->rest);
    arena_done(&writer->arena);
    free(writer);
}

static struct store_writer *writer_new(const struct store_writer_options *options)
{
    struct store_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return NULL;

    store_queue_init(&writer->queue, options->store.interval_seconds, write_errors_reason(-ETIME));
    writer->errors.on_notice = options->on_notice;
    writer->errors.context = options->context;
    pthread_mutex_init(&writer->lock, NULL);
    cond_init(&writer->wake);
    cond_init(&writer->rest);
    if (store_writer_options_copy(options, &writer->arena, &writer->options) < 0) {
        store_writer_free(writer);
        return NULL;
    }
    return writer;
}

/* The loop handles all signals: the thread blocks them. */
static int start_thread(struct store_writer *writer)
{
    pthread_attr_t attributes;
    sigset_t all, before;

    int r = pthread_attr_init(&attributes);
    if (r)
        return -r;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&writer->thread, &attributes, writer_thread_run, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -r;
}

int store_writer_start(const struct store_writer_options *options, struct store_writer **ret)
{
    struct store_writer *writer = writer_new(options);
    if (!writer)
        return -ENOMEM;

    int r = start_thread(writer);
    if (r < 0) {
        store_writer_free(writer);
        return r;
    }
    *ret = writer;
    return 0;
}

void store_writer_hold(struct store_writer *writer)
{
    uint64_t until_ns = clock_mono_ns() + HOLD_NS;

    pthread_mutex_lock(&writer->lock);
    writer->is_held = true;
    while (writer->is_busy && cond_wait_until(&writer->rest, &writer->lock, until_ns) == 0)
        ;
    pthread_mutex_unlock(&writer->lock);
}

void store_writer_release(struct store_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    writer->is_held = false;
    pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
}

/* The lock is held. */
static void fill_report(const struct store_writer *writer, struct store_report *ret)
{
    *ret = writer->report;
    ret->dropped = writer->queue.dropped;
    ret->events_lost = writer->queue.events_lost;
    if (!ret->error[0] && (ret->dropped || ret->events_lost))
        snprintf(ret->error, sizeof(ret->error), "%s", writer->queue.loss_reason);
}

bool store_writer_wait(struct store_writer *writer, uint64_t max_ns)
{
    uint64_t now_ns = clock_mono_ns(), until_ns = now_ns + max_ns;

    pthread_mutex_lock(&writer->lock);
    uint64_t last = writer->queue.pushed; /* does not wait for messages that are added later */
    while ((!writer->is_open || writer->queue.removed < last) && !writer->is_done &&
           now_ns < until_ns) {
        cond_wait_until(&writer->rest, &writer->lock, MIN(now_ns + WAIT_STEP_NS, until_ns));
        now_ns = clock_mono_ns();
    }
    bool is_written = writer->is_open && writer->queue.removed >= last;
    pthread_mutex_unlock(&writer->lock);
    return is_written;
}

void store_writer_report(struct store_writer *writer, struct store_report *ret)
{
    pthread_mutex_lock(&writer->lock);
    fill_report(writer, ret);
    /* Replaces the reason of an earlier loss, whose error may be over. */
    if (!writer->report.error[0])
        snprintf(ret->error, sizeof(ret->error), "%s", writer->current.text);
    pthread_mutex_unlock(&writer->lock);
}

static uint64_t cpu_time_ns(pthread_t thread)
{
    struct timespec used = {0};
    clockid_t clock;

    if (pthread_getcpuclockid(thread, &clock) == 0)
        clock_gettime(clock, &used);
    return (uint64_t)used.tv_sec * NS_PER_SEC + (uint64_t)used.tv_nsec;
}

/* Waits until the thread has ended or hangs. Returns whether it has ended. A thread that uses CPU
 * time does not hang: it gets too little of it, or waits for another writer. The lock is held. */
static bool await_end(struct store_writer *writer, uint64_t at_most_until_ns)
{
    uint64_t step_ns = writer->options.pace.stop_ns / 6, until_ns = writer->stop_by_ns + step_ns;

    while (!writer->is_done &&
           cond_wait_until(&writer->rest, &writer->lock, writer->stop_by_ns) == 0)
        ;
    for (; !writer->is_done && until_ns <= at_most_until_ns; until_ns += step_ns) {
        uint64_t before_ns = cpu_time_ns(writer->thread);
        while (!writer->is_done && cond_wait_until(&writer->rest, &writer->lock, until_ns) == 0)
            ;
        if (!writer->is_done && cpu_time_ns(writer->thread) == before_ns)
            break;
    }
    return writer->is_done;
}

void store_writer_stop(struct store_writer *writer, struct store_report *ret)
{
    const struct store_writer_options options = writer->options;
    pthread_t thread = writer->thread;
    uint64_t now_ns = clock_mono_ns();

    pthread_mutex_lock(&writer->lock);
    writer->is_stopping = true;
    writer->is_held = false;
    /* The thread itself stops in time; only a hanging disk is abandoned. */
    writer->stop_by_ns = now_ns + options.pace.stop_ns / 6 * 5;
    pthread_cond_signal(&writer->wake);
    bool is_done = await_end(writer, now_ns + STOP_TIMES_MAX * options.pace.stop_ns);
    if (!is_done) {
        /* The thread hangs in a system call. If that call returns after all, the thread writes the
         * waiting messages, or stores their loss as a gap. So only the report counts them as lost,
         * not the queue. */
        writer->is_abandoned = true;
        write_errors_silence(&writer->errors);
        snprintf(writer->report.error, sizeof(writer->report.error),
                 "the disk of %s does not answer; gave up waiting", options.store.path);
    }
    fill_report(writer, ret);
    if (!is_done)
        store_queue_add_waiting(&writer->queue, &ret->dropped, &ret->events_lost);
    pthread_mutex_unlock(&writer->lock);

    if (is_done) {
        pthread_join(thread, NULL);
        store_writer_free(writer);
        return;
    }
    pthread_detach(thread);
    if (options.on_notice) {
        char text[sizeof(ret->error) + 64];
        snprintf(text, sizeof(text), "not stored to the end: %s", ret->error);
        options.on_notice(options.context, text);
    }
}
