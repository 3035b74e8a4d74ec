#include "writer/tick-loss.h"

#include "base/macros.h"

bool tick_loss_is_empty(const struct tick_loss *loss)
{
    return !loss->snapshots && !loss->events;
}

static double time_of(const struct tick_box *box)
{
    const struct process_event_list *events = &box->tick.events;

    if (box->tick.snapshot)
        return box->tick.snapshot->timestamp;
    return events->count ? events->items[events->count - 1].timestamp : REAL_UNKNOWN;
}

static void add_time(struct tick_loss *loss, double from, double to)
{
    loss->first = loss->has_time ? MIN(loss->first, from) : from;
    loss->last = loss->has_time ? MAX(loss->last, to) : to;
    loss->has_time = true;
}

/* Adds the loss that a lost gap contains. */
static void add_gap_of(struct tick_loss *loss, const struct gap *gap)
{
    if (gap->kind == GAP_CLOCK_STEP || !real_is_known(gap->timestamp))
        return;
    add_time(loss, gap->timestamp - (real_is_known(gap->seconds) ? gap->seconds : 0),
             gap->timestamp);
    if (gap->kind == GAP_NOT_STORED && gap->lost > 0)
        loss->snapshots += (uint64_t)gap->lost;
    else if (gap->kind == GAP_EVENTS && gap->lost > 0)
        loss->events += (uint64_t)gap->lost;
}

void tick_loss_add_gaps(struct tick_loss *loss, const struct tick_box *box)
{
    for (size_t i = 0; i < box->tick.gaps.count; i++)
        add_gap_of(loss, &box->tick.gaps.items[i]);
}

void tick_loss_add(struct tick_loss *loss, const struct tick_box *box)
{
    bool has_snapshot = tick_stored_snapshot(&box->tick);
    double when = time_of(box);

    if (!real_is_known(when) || (!has_snapshot && !box->tick.events.count))
        return;
    add_time(loss, when, when);
    loss->snapshots += has_snapshot;
    loss->events += box->tick.events.count;
}

void tick_loss_add_anomalies(struct tick_loss *loss, const struct anomaly_list *anomalies,
                             size_t lost)
{
    /* The time of the tick is more exact than that of an anomaly, which may have begun long before.
     */
    if (!loss->has_time && anomalies->count) {
        double when = anomalies->items[anomalies->count - 1].timestamp;
        add_time(loss, when, when);
    }
    loss->events += lost;
}

double tick_loss_seconds(const struct tick_loss *loss, double interval_seconds)
{
    return MAX(loss->last - loss->first, 0.0) + interval_seconds;
}

static int add_gap(struct tick_box *box, struct gap gap, int kind, uint64_t *count)
{
    if (!*count)
        return 0;
    gap.kind = kind;
    gap.lost = (int64_t)*count;
    int r = tick_box_add_gap(box, &gap);
    if (r == 0)
        *count = 0;
    return r;
}

void tick_loss_move(struct tick_loss *loss, double interval_seconds, const char *reason,
                    struct tick_box *box)
{
    const struct gap gap = {
        .timestamp = loss->last,
        .seconds = tick_loss_seconds(loss, interval_seconds),
        .reason = reason,
    };

    if (add_gap(box, gap, GAP_NOT_STORED, &loss->snapshots) == 0)
        add_gap(box, gap, GAP_EVENTS, &loss->events);
    loss->has_time = !tick_loss_is_empty(loss);
}
