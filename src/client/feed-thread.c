#include "client/feed-thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"

struct frame_vec VEC(struct frame);
struct headline_vec VEC(struct headline *);

/* The data that arrived since the receiver last fetched. */
struct mailbox {
    struct frame_vec frames; /* past frames, and the latest */
    struct headline_vec headlines;
    struct feed_status status;
    bool has_status;
};

struct feed_thread {
    const struct feed_options *options;
    struct feed_receiver receiver;
    uv_async_t arrival; /* a handle in the receiver's loop */

    pthread_t thread;
    uv_loop_t loop;   /* the thread's */
    uv_async_t order; /* a handle in the thread's loop: commands, or the end */
    struct feed *feed;
    int error; /* result of feed_open() */
    struct feed_error error_text;
    uv_sem_t opened; /* posted after feed_open() */

    pthread_mutex_t lock; /* protects the members below */
    struct mailbox mailbox;
    struct VEC(struct feed_command) commands;
    bool is_stopping;
};

static void mailbox_clear(struct mailbox *mailbox)
{
    while (mailbox->frames.count)
        frame_done(&mailbox->frames.items[--mailbox->frames.count]);
    while (mailbox->headlines.count)
        free(mailbox->headlines.items[--mailbox->headlines.count]);
}

static void mailbox_done(struct mailbox *mailbox)
{
    mailbox_clear(mailbox);
    VEC_DONE(&mailbox->frames);
    VEC_DONE(&mailbox->headlines);
}

/* ---- in the feed's thread ---- */

/* Replaces a frame that was not fetched; past frames and jumps stay. A jump discards headlines of
 * the previous time. */
static void on_frame(void *context, struct frame *frame)
{
    struct feed_thread *thread = context;
    struct frame_vec *frames = &thread->mailbox.frames;

    pthread_mutex_lock(&thread->lock);
    if (frame->is_jump)
        mailbox_clear(&thread->mailbox);
    struct frame *last = frames->count ? &frames->items[frames->count - 1] : NULL;
    if (last && !last->is_past && !frame->is_past) {
        bool was_jump = last->is_jump;
        frame_done(last);
        *last = frame_take(frame);
        last->is_jump |= was_jump;
    } else if (VEC_PUSH(frames, *frame) == 0) {
        frame_take(frame);
    }
    pthread_mutex_unlock(&thread->lock);
    uv_async_send(&thread->arrival);
}

static void on_event(void *context, const struct event_line *line)
{
    struct feed_thread *thread = context;
    struct headline_vec *headlines = &thread->mailbox.headlines;
    struct headline *headline = headline_new(line);

    if (!headline)
        return;
    pthread_mutex_lock(&thread->lock);
    if (headlines->count >= FEED_THREAD_HEADLINES_MAX) {
        free(headlines->items[0]);
        headlines->count--;
        memmove(headlines->items, headlines->items + 1,
                headlines->count * sizeof(*headlines->items));
    }
    if (VEC_PUSH(headlines, headline) < 0)
        free(headline);
    pthread_mutex_unlock(&thread->lock);
    uv_async_send(&thread->arrival);
}

static void on_status(void *context, const struct feed_status *status)
{
    struct feed_thread *thread = context;

    pthread_mutex_lock(&thread->lock);
    thread->mailbox.status = *status;
    thread->mailbox.has_status = true;
    pthread_mutex_unlock(&thread->lock);
    uv_async_send(&thread->arrival);
}

static void on_order(uv_async_t *order)
{
    struct feed_thread *thread = order->data;

    pthread_mutex_lock(&thread->lock);
    bool is_stopping = thread->is_stopping;
    size_t count = thread->commands.count;
    struct feed_command *commands = TAKE_PTR(thread->commands.items);
    thread->commands.count = thread->commands.capacity = 0;
    pthread_mutex_unlock(&thread->lock);

    for (size_t i = 0; i < count && !is_stopping; i++)
        feed_command(thread->feed, &commands[i]);
    free(commands);
    if (is_stopping) {
        feed_close(TAKE_PTR(thread->feed));
        uv_close((uv_handle_t *)&thread->order, NULL);
    }
}

static void *run(void *context)
{
    struct feed_thread *thread = context;
    const struct feed_sink sink = {
        .on_frame = on_frame, .on_event = on_event, .on_status = on_status, .context = thread};

    thread->error =
        feed_open(&thread->loop, thread->options, &sink, &thread->feed, &thread->error_text);
    if (thread->error < 0)
        uv_close((uv_handle_t *)&thread->order, NULL);
    uv_sem_post(&thread->opened);
    uv_run(&thread->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* ---- in the receiver's thread ---- */

static void on_arrival(uv_async_t *arrival)
{
    struct feed_thread *thread = arrival->data;
    const struct feed_receiver *receiver = &thread->receiver;

    pthread_mutex_lock(&thread->lock);
    struct mailbox mailbox = thread->mailbox;
    thread->mailbox = (struct mailbox){0};
    pthread_mutex_unlock(&thread->lock);

    if (mailbox.has_status)
        receiver->on_status(receiver->context, &mailbox.status);
    for (size_t i = 0; i < mailbox.frames.count; i++)
        receiver->on_frame(receiver->context, &mailbox.frames.items[i]);
    for (size_t i = 0; i < mailbox.headlines.count; i++)
        receiver->on_headline(receiver->context, mailbox.headlines.items[i]);
    mailbox.headlines.count = 0;
    mailbox_done(&mailbox);
}

static void on_arrival_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* Called when the thread has ended. The close callback frees the memory. */
static void thread_free(struct feed_thread *thread)
{
    uv_loop_close(&thread->loop);
    uv_sem_destroy(&thread->opened);
    pthread_mutex_destroy(&thread->lock);
    mailbox_done(&thread->mailbox);
    VEC_DONE(&thread->commands);
    uv_close((uv_handle_t *)&thread->arrival, on_arrival_closed);
}

static int prepare(struct feed_thread *thread, uv_loop_t *loop)
{
    int r = uv_loop_init(&thread->loop);
    if (r < 0)
        return r;
    r = uv_async_init(&thread->loop, &thread->order, on_order);
    if (r == 0 && (r = uv_async_init(loop, &thread->arrival, on_arrival)) < 0) {
        uv_close((uv_handle_t *)&thread->order, NULL);
        uv_run(&thread->loop, UV_RUN_DEFAULT);
    }
    if (r < 0) {
        uv_loop_close(&thread->loop);
        return r;
    }
    thread->order.data = thread->arrival.data = thread;
    uv_sem_init(&thread->opened, 0);
    pthread_mutex_init(&thread->lock, NULL);
    return 0;
}

int feed_thread_start(uv_loop_t *loop, const struct feed_options *options,
                      const struct feed_receiver *receiver, struct feed_thread **ret,
                      struct feed_error *error)
{
    struct feed_thread *thread = calloc(1, sizeof(*thread));

    int r = thread ? prepare(thread, loop) : -ENOMEM;
    if (r < 0) {
        free(thread);
        snprintf(error->text, sizeof(error->text), "%s", strerror(-r));
        return r;
    }
    thread->options = options;
    thread->receiver = *receiver;
    r = -pthread_create(&thread->thread, NULL, run, thread);
    if (r < 0) {
        snprintf(error->text, sizeof(error->text), "cannot start a thread: %s", strerror(-r));
        uv_close((uv_handle_t *)&thread->order, NULL);
        uv_run(&thread->loop, UV_RUN_DEFAULT);
        thread_free(thread);
        return r;
    }
    uv_sem_wait(&thread->opened);
    r = thread->error;
    if (r < 0) {
        *error = thread->error_text;
        pthread_join(thread->thread, NULL);
        thread_free(thread);
        return r;
    }
    *ret = thread;
    return 0;
}

void feed_thread_stop(struct feed_thread *thread)
{
    if (!thread)
        return;
    pthread_mutex_lock(&thread->lock);
    thread->is_stopping = true;
    pthread_mutex_unlock(&thread->lock);
    uv_async_send(&thread->order);
    pthread_join(thread->thread, NULL);
    thread_free(thread);
}

void feed_thread_command(struct feed_thread *thread, const struct feed_command *command)
{
    pthread_mutex_lock(&thread->lock);
    int r = VEC_PUSH(&thread->commands, *command); /* a lost command is repeated by the user */
    (void)r;
    pthread_mutex_unlock(&thread->lock);
    uv_async_send(&thread->order);
}
