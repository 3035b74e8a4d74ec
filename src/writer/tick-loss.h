/* Ticks that were taken and not stored: how many, and the gaps that tell of them. */
#pragma once

#include "model/tick-box.h"

/* Zero-initialised is none. */
struct tick_loss {
    uint64_t snapshots;
    uint64_t events;
    bool has_time; /* the two below are set */
    double first;  /* when, by the wall clock */
    double last;
};

bool tick_loss_is_empty(const struct tick_loss *loss);
/* The snapshot and the events of a tick. */
void tick_loss_add(struct tick_loss *loss, const struct tick_box *box);
/* So many that were noticed in a tick, and that there was no room to keep: they count as events. */
void tick_loss_add_anomalies(struct tick_loss *loss, const struct anomaly_list *anomalies,
                             size_t lost);
/* What its gaps were to tell of, which were made of this loss: it is to be told of again. */
void tick_loss_add_gaps(struct tick_loss *loss, const struct tick_box *box);

/* Each snapshot stands for the interval before it. */
double tick_loss_seconds(const struct tick_loss *loss, double interval_seconds);

/* Makes gaps of it, after which it is empty; what there is no memory for stays in it. */
void tick_loss_move(struct tick_loss *loss, double interval_seconds, const char *reason,
                    struct tick_box *box);
