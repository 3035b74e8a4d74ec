/* What was noticed in ticks that were lost: kept for the next one that is not, because nothing else
 * will tell of it again. News of an episode take the place of older news of it, so that there are
 * as many as there are episodes, and no more than KEPT_ANOMALIES_MAX. */
#pragma once

#include "model/tick-box.h"

#define KEPT_ANOMALIES_MAX 256

/* Zero-initialised is empty. */
struct kept_anomalies {
    struct anomaly *items;
    size_t count;
    size_t capacity;
    struct arena arena; /* holds their texts */
    size_t replaced;    /* since it was last put in order: their texts are still there */
};

void kept_anomalies_done(struct kept_anomalies *kept);

/* Copies; returns how many there was no room or no memory for. */
size_t kept_anomalies_add(struct kept_anomalies *kept, const struct anomaly_list *anomalies);

/* Puts them before those of the box, after which there are none; without memory they stay. */
void kept_anomalies_move(struct kept_anomalies *kept, struct tick_box *box);
