/* Counts what was in ticks that could not be stored, and turns the counts into gaps. */
#pragma once

#include "model/tick-box.h"

/* A zero-initialised struct is empty: nothing was lost. */
struct tick_loss {
    uint64_t snapshots;
    uint64_t events;
    bool has_time; /* `first` and `last` are set */
    double first;
    double last; /* when the first and the last of it was lost: wall clock */
};

bool tick_loss_is_empty(const struct tick_loss *loss);
/* Adds the snapshot and the events of a tick. */
void tick_loss_add(struct tick_loss *loss, const struct tick_box *box);
/* Adds anomalies of a tick that could not be kept; they count as events. */
void tick_loss_add_anomalies(struct tick_loss *loss, const struct anomaly_list *anomalies,
                             size_t lost);
/* Adds the losses that gaps of a lost tick report: these gaps are lost too. */
void tick_loss_add_gaps(struct tick_loss *loss, const struct tick_box *box);

/* Returns the duration of the loss. Each snapshot stands for the interval before it. */
double tick_loss_seconds(const struct tick_loss *loss, double interval_seconds);

/* Adds gaps for the loss to the box, and subtracts what they report. Without memory for a gap, its
 * part of the loss stays in `loss`. */
void tick_loss_move(struct tick_loss *loss, double interval_seconds, const char *reason,
                    struct tick_box *box);
