/* A feed in a thread of its own, so that whoever shows it answers keys at once, whatever a daemon,
 * the disk or five thousand processes take. What crosses is handed over whole. */
#pragma once

#include "client/feed.h"
#include "client/headline.h"

/* What waits for a receiver that is busy: of frames the latest alone. */
#define FEED_THREAD_HEADLINES_MAX 1000

/* Called in the receiver's loop. */
struct feed_receiver {
    void (*on_frame)(void *context, struct frame *frame);          /* takes what is in it */
    void (*on_headline)(void *context, struct headline *headline); /* the receiver's */
    void (*on_status)(void *context, const struct feed_status *status);
    void *context;
};

struct feed_thread;

/* Opens the feed before it returns. The options must outlive it. 0 or a negative errno, with words.
 */
int feed_thread_start(uv_loop_t *loop, const struct feed_options *options,
                      const struct feed_receiver *receiver, struct feed_thread **ret,
                      struct feed_error *error);
/* Waits for the thread; nothing is received any more. */
void feed_thread_stop(struct feed_thread *thread);

void feed_thread_command(struct feed_thread *thread, const struct feed_command *command);
