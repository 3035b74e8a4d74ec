#include "daemon/live.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macros.h"
#include "model/record-copy.h"

void live_done(struct live *live)
{
    snapshot_unref(live->latest);
    for (size_t i = 0; i < LIVE_EVENTS_MAX; i++)
        arena_done(&live->events[i].arena);
    *live = (struct live){0};
}

void live_note_snapshot(struct live *live, const struct snapshot *snapshot)
{
    snapshot_unref(live->latest);
    live->latest = snapshot_ref(snapshot);
    live->taken_ns = clock_mono_ns();
}

void live_note_event(struct live *live, const struct process_event *event, int64_t uid)
{
    struct live_event *place = &live->events[live->event_count % LIVE_EVENTS_MAX];
    struct live_event copy = {.uid = uid};

    if (record_copy(&process_event_record, event, &copy.arena, &copy.event) < 0) {
        arena_done(&copy.arena);
        return;
    }
    arena_done(&place->arena);
    *place = copy;
    live->event_count++;
}

void live_note_gap(struct live *live, const struct gap *gap)
{
    struct live_gap *place = &live->gaps[live->gap_count++ % LIVE_GAPS_MAX];

    place->gap = *gap;
    place->gap.reason = gap->reason ? place->reason : NULL;
    snprintf(place->reason, sizeof(place->reason), "%s", gap->reason ? gap->reason : "");
}

const struct process_metric *live_find_process(const struct live *live, pid_t pid)
{
    const struct process_list *processes = live->latest ? &live->latest->processes : NULL;

    for (size_t i = 0; processes && i < processes->count; i++)
        if (processes->items[i].pid == pid)
            return &processes->items[i];
    return NULL;
}

const struct live_event *live_event_at(const struct live *live, size_t i)
{
    size_t kept = MIN(live->event_count, (size_t)LIVE_EVENTS_MAX);

    return i < kept ? &live->events[(live->event_count - kept + i) % LIVE_EVENTS_MAX] : NULL;
}

const struct gap *live_gap_at(const struct live *live, size_t i)
{
    size_t kept = MIN(live->gap_count, (size_t)LIVE_GAPS_MAX);

    return i < kept ? &live->gaps[(live->gap_count - kept + i) % LIVE_GAPS_MAX].gap : NULL;
}
