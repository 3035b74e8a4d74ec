/* What waits to be written, in its order, and what was lost of it.
 *
 * Bounded: what comes when STORE_QUEUE_MAX ticks wait is dropped and counted, and goes as a gap
 * with the next tick that is not; what was noticed in it goes with that tick whole. Jobs, steps and
 * settings are never dropped, only counted: whoever tells of them asks first how many wait. Has no
 * lock: whoever shares it has one. */
#pragma once

#include "writer/kept-anomalies.h"
#include "writer/store-message.h"
#include "writer/tick-loss.h"

struct store_queue {
    TAILQ_HEAD(, store_message) messages;
    size_t ticks_waiting;
    size_t told_bytes;        /* of all else that waits */
    uint64_t pushed, removed; /* messages that there have been */
    double interval_seconds;
    bool is_closed; /* nothing will be written any more */

    struct tick_loss loss;           /* that the store does not know of yet */
    struct tick_loss episode;        /* since writing last went well */
    const char *loss_reason;         /* why ticks are being lost */
    char beside_run[UUID_TEXT_SIZE]; /* of the latest tick, stored or lost */
    struct kept_anomalies anomalies;
    uint64_t dropped; /* snapshots, in all */
    uint64_t events_lost;
};

void store_queue_init(struct store_queue *queue, double interval_seconds, const char *loss_reason);
void store_queue_done(struct store_queue *queue);

/* false: the tick is lost, and the box still the caller's. */
bool store_queue_push_tick(struct store_queue *queue, struct tick_box *box);
void store_queue_push(struct store_queue *queue, struct store_message *message);

/* NULL: there is none. */
struct store_message *store_queue_first(const struct store_queue *queue);
/* Patterns that wait, and that newer ones take the place of: the caller's. NULL: there are none.
 * The first message stays, because it may be on its way. */
struct store_message *store_queue_take_patterns(struct store_queue *queue);
/* It is the caller's then. */
void store_queue_remove(struct store_queue *queue, struct store_message *message);

/* Counts a tick that is not written, whether or not it was ever queued. */
void store_queue_lose(struct store_queue *queue, const struct tick_box *box);
/* Nothing will be written any more: what waits is lost, and so is what comes. The messages stay. */
void store_queue_close(struct store_queue *queue);
/* Adds the snapshots and events that are lost if nothing more is written; counts none as lost. */
void store_queue_add_waiting(const struct store_queue *queue, uint64_t *snapshots,
                             uint64_t *events);
void store_queue_clear(struct store_queue *queue);

/* Puts what was lost in the box; without memory it is the next tick's. */
void store_queue_move_loss(struct store_queue *queue, struct tick_box *box);
