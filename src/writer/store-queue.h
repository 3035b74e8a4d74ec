/* The queue of messages to be written, in their order, and the count of those that were lost.
 *
 * The queue is bounded: a tick that comes while STORE_QUEUE_MAX ticks wait is dropped and counted;
 * the next tick carries the loss as a gap, with the anomalies of the dropped ticks. Jobs, steps and
 * settings are never dropped; their bytes are counted, and their senders check the load first. The
 * owner of the queue locks it. */
#pragma once

#include "writer/kept-anomalies.h"
#include "writer/store-message.h"
#include "writer/tick-loss.h"

struct store_queue {
    TAILQ_HEAD(, store_message) messages;
    size_t ticks_waiting;
    size_t message_bytes;     /* of the other messages */
    uint64_t pushed, removed; /* messages in all */
    double interval_seconds;
    bool is_closed; /* nothing is written any more */

    struct tick_loss loss;           /* not yet stored as a gap */
    struct tick_loss episode;        /* lost since write errors began */
    const char *loss_reason;         /* why ticks are lost */
    char beside_run[UUID_TEXT_SIZE]; /* of the latest tick */
    struct kept_anomalies anomalies;
    uint64_t dropped; /* snapshots in all */
    uint64_t events_lost;
};

void store_queue_init(struct store_queue *queue, double interval_seconds, const char *loss_reason);
void store_queue_done(struct store_queue *queue);

/* Returns false if the tick is lost; then the caller still owns the box. */
bool store_queue_push_tick(struct store_queue *queue, struct tick_box *box);
void store_queue_push(struct store_queue *queue, struct store_message *message);

/* Returns the first message, which stays in the queue; NULL if the queue is empty. */
struct store_message *store_queue_first(const struct store_queue *queue);
/* Removes a waiting message of patterns, which newer patterns replace. The caller owns it; NULL if
 * there is none. Skips the first message, which may be being written. */
struct store_message *store_queue_remove_patterns(struct store_queue *queue);
/* The caller owns the message afterwards. */
void store_queue_remove(struct store_queue *queue, struct store_message *message);

/* Counts a tick as lost, whether or not it was queued. */
void store_queue_count_lost(struct store_queue *queue, const struct tick_box *box);
/* Notes that nothing is written from now on: counts the waiting ticks, and all later ones, as lost.
 * The messages stay in the queue. */
void store_queue_close(struct store_queue *queue);
/* Adds the snapshots and events that would be lost if nothing more is written; does not count them
 * as lost. */
void store_queue_add_waiting(const struct store_queue *queue, uint64_t *snapshots,
                             uint64_t *events);
/* Frees all messages. */
void store_queue_clear(struct store_queue *queue);

/* Moves the loss into the box, as gaps and anomalies; without memory the next tick gets it. */
void store_queue_move_loss(struct store_queue *queue, struct tick_box *box);
