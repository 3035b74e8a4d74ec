/* Anomalies of ticks that were lost: kept for the next tick that is not, because they are reported
 * only once. A newer report of an episode replaces the older one, so that there is one per episode,
 * and KEPT_ANOMALIES_MAX at most. */
#pragma once

#include "model/tick-box.h"

#define KEPT_ANOMALIES_MAX 256

/* Zero-initialised is empty. */
struct kept_anomalies {
    struct anomaly *items;
    size_t count;
    size_t capacity;
    struct arena arena; /* holds their texts */
    size_t replaced;    /* texts in the arena that are no longer used */
};

void kept_anomalies_done(struct kept_anomalies *kept);

/* Copies them. Returns how many were lost for lack of room or memory. */
size_t kept_anomalies_add(struct kept_anomalies *kept, const struct anomaly_list *anomalies);

/* Moves them before those of the box, and is empty then; without memory they stay. */
void kept_anomalies_move(struct kept_anomalies *kept, struct tick_box *box);
