#include "daemon/live.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macros.h"
#include "model/record-copy.h"
#include "model/redact.h"

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

/* Returns a redacted copy; NULL without memory. */
static struct snapshot *copy_redacted(const struct snapshot *snapshot,
                                      const struct text_list *words)
{
    struct snapshot *copy = snapshot_new();
    struct arena arena = {0};

    if (!copy)
        return NULL;
    int r = record_copy(&snapshot_record, snapshot, &arena, copy);
    copy->arena = arena; /* record_copy() has also copied the arena of the other one */
    if (r == 0)
        r = redact_record(words, &snapshot_record, &copy->arena, copy);
    if (r == 0)
        return copy;
    snapshot_free(copy);
    return NULL;
}

void live_redact(struct live *live, const struct text_list *words)
{
    const struct snapshot *former = live->latest;

    for (size_t i = 0; i < MIN(live->event_count, (size_t)LIVE_EVENTS_MAX); i++)
        redact_record(words, &process_event_record, &live->events[i].arena, &live->events[i].event);
    if (former)
        live->latest = copy_redacted(former, words);
    snapshot_unref(former);
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
