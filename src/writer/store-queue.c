#include "writer/store-queue.h"

#include <string.h>

#include "writer/store-writer.h"

void store_queue_init(struct store_queue *queue, double interval_seconds, const char *loss_reason)
{
    *queue = (struct store_queue){.interval_seconds = interval_seconds, .loss_reason = loss_reason};
    TAILQ_INIT(&queue->messages);
}

void store_queue_done(struct store_queue *queue)
{
    store_queue_clear(queue);
    kept_anomalies_done(&queue->anomalies);
}

/* ---- messages ---- */

void store_queue_push(struct store_queue *queue, struct store_message *message)
{
    TAILQ_INSERT_TAIL(&queue->messages, message, neighbours);
    queue->pushed++;
    if (message->kind == STORE_MESSAGE_TICK)
        queue->ticks_waiting++;
    else
        queue->message_bytes += store_message_bytes(message);
}

bool store_queue_push_tick(struct store_queue *queue, struct tick_box *box)
{
    bool has_room = !queue->is_closed && queue->ticks_waiting < STORE_QUEUE_MAX;
    struct store_message *message = has_room ? store_message_of_tick(box) : NULL;

    memcpy(queue->beside_run, box->tick.beside_run, sizeof(queue->beside_run));
    if (!message) {
        store_queue_count_lost(queue, box);
        return false;
    }
    store_queue_move_loss(queue, box);
    store_queue_push(queue, message);
    return true;
}

struct store_message *store_queue_first(const struct store_queue *queue)
{
    return TAILQ_FIRST(&queue->messages);
}

struct store_message *store_queue_remove_patterns(struct store_queue *queue)
{
    struct store_message *first = store_queue_first(queue), *message = first;

    while (message && (message == first || message->kind != STORE_MESSAGE_PATTERNS))
        message = TAILQ_NEXT(message, neighbours);
    if (message)
        store_queue_remove(queue, message);
    return message;
}

void store_queue_remove(struct store_queue *queue, struct store_message *message)
{
    TAILQ_REMOVE(&queue->messages, message, neighbours);
    queue->removed++;
    if (message->kind == STORE_MESSAGE_TICK)
        queue->ticks_waiting--;
    else
        queue->message_bytes -= store_message_bytes(message);
}

void store_queue_clear(struct store_queue *queue)
{
    struct store_message *message;

    while ((message = store_queue_first(queue))) {
        store_queue_remove(queue, message);
        store_message_free(message);
    }
}

/* ---- losses ---- */

/* Keeps the anomalies of a lost tick; those that can never be stored count as lost events. */
static void keep_anomalies(struct store_queue *queue, const struct anomaly_list *anomalies)
{
    size_t lost =
        queue->is_closed ? anomalies->count : kept_anomalies_add(&queue->anomalies, anomalies);

    queue->events_lost += lost;
    if (lost)
        tick_loss_add_anomalies(&queue->loss, anomalies, lost);
}

void store_queue_count_lost(struct store_queue *queue, const struct tick_box *box)
{
    tick_loss_add_gaps(&queue->loss, box);
    tick_loss_add(&queue->loss, box);
    tick_loss_add(&queue->episode, box);
    queue->dropped += tick_stored_snapshot(&box->tick) != NULL;
    queue->events_lost += box->tick.events.count;
    keep_anomalies(queue, &box->tick.anomalies);
}

void store_queue_close(struct store_queue *queue)
{
    struct store_message *message;

    queue->is_closed = true;
    queue->events_lost += queue->anomalies.count;
    kept_anomalies_done(&queue->anomalies);
    TAILQ_FOREACH (message, &queue->messages, neighbours)
        if (message->box)
            store_queue_count_lost(queue, message->box);
}

void store_queue_add_waiting(const struct store_queue *queue, uint64_t *snapshots, uint64_t *events)
{
    const struct store_message *message;

    *events += queue->anomalies.count;
    TAILQ_FOREACH (message, &queue->messages, neighbours)
        if (message->box) {
            *snapshots += tick_stored_snapshot(&message->box->tick) != NULL;
            *events += message->box->tick.events.count + message->box->tick.anomalies.count;
        }
}

void store_queue_move_loss(struct store_queue *queue, struct tick_box *box)
{
    kept_anomalies_move(&queue->anomalies, box);
    if (!tick_loss_is_empty(&queue->loss))
        tick_loss_move(&queue->loss, queue->interval_seconds, queue->loss_reason, box);
}
