/* The anomalies of lost ticks. Each is reported only once, so they are kept for the next tick that
 * is stored. A newer report of an episode replaces the older one, so that there is one per episode,
 * and KEPT_ANOMALIES_MAX at most. */
#pragma once

#include "model/tick-box.h"

#define KEPT_ANOMALIES_MAX 256

/* A zero-initialised struct is empty and valid. */
struct kept_anomalies {
    struct anomaly *items;
    size_t count;
    size_t capacity;
    struct arena arena; /* holds their texts */
    size_t replaced;    /* texts in the arena that are no longer used */
};

void kept_anomalies_done(struct kept_anomalies *kept);

/* Copies the anomalies. Returns how many were lost for lack of room or memory. */
size_t kept_anomalies_add(struct kept_anomalies *kept, const struct anomaly_list *anomalies);

/* Moves the kept anomalies into the box, before those that it has. Without memory they stay here.
 */
void kept_anomalies_move(struct kept_anomalies *kept, struct tick_box *box);
