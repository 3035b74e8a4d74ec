/* Runs a feed in a thread, so that keys are handled at once while a daemon, the disk or a large
 * snapshot is slow. Frames and headlines are handed over completely. */
#pragma once

#include "client/feed.h"
#include "client/headline.h"

/* The number of headlines kept for a busy receiver. Of several frames, only the latest is kept. */
#define FEED_THREAD_HEADLINES_MAX 1000

/* Called in the receiver's loop. */
struct feed_receiver {
    void (*on_frame)(void *context, struct frame *frame); /* takes ownership of its content */
    void (*on_headline)(void *context, struct headline *headline); /* the receiver frees it */
    void (*on_status)(void *context, const struct feed_status *status);
    void *context;
};

struct feed_thread;

/* Starts the thread and opens the feed before it returns. The options must outlive the thread.
 * Returns 0 or a negative errno, with a message. */
int feed_thread_start(uv_loop_t *loop, const struct feed_options *options,
                      const struct feed_receiver *receiver, struct feed_thread **ret,
                      struct feed_error *error);
/* Ends the thread and waits for it. No callback is called afterwards. NULL is allowed. */
void feed_thread_stop(struct feed_thread *thread);

/* As feed_command(), in the feed's thread. */
void feed_thread_command(struct feed_thread *thread, const struct feed_command *command);
