/* Counts ticks that were not stored, and makes gaps of them. */
#pragma once

#include "model/tick-box.h"

/* A zero-initialised struct is empty: nothing was lost. */
struct tick_loss {
    uint64_t snapshots;
    uint64_t events;
    bool has_time; /* `first` and `last` are set */
    double first;  /* wall clock */
    double last;
};

bool tick_loss_is_empty(const struct tick_loss *loss);
/* Adds the snapshot and the events of a tick. */
void tick_loss_add(struct tick_loss *loss, const struct tick_box *box);
/* Adds anomalies of a tick that could not be kept; they count as events. */
void tick_loss_add_anomalies(struct tick_loss *loss, const struct anomaly_list *anomalies,
                             size_t lost);
/* Adds the loss that the gaps of a lost tick contain, so that a later gap reports it again. */
void tick_loss_add_gaps(struct tick_loss *loss, const struct tick_box *box);

/* Returns the duration of the loss. Each snapshot stands for the interval before it. */
double tick_loss_seconds(const struct tick_loss *loss, double interval_seconds);

/* Moves the loss into the box, as gaps; without memory the rest stays here. */
void tick_loss_move(struct tick_loss *loss, double interval_seconds, const char *reason,
                    struct tick_box *box);
