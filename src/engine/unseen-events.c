#include "engine/unseen-events.h"

#include "model/record-copy.h"

void unseen_events_done(struct unseen_events *unseen)
{
    VEC_DONE(&unseen->events);
    arena_done(&unseen->arena);
}

/* Of an exec, the process is all that matters. */
static int copy_event(struct unseen_events *unseen, const struct process_event *event,
                      struct process_event *ret)
{
    if (event->event_type == EVENT_OOM)
        return record_copy(&process_event_record, event, &unseen->arena, ret);
    record_init(&process_event_record, ret);
    ret->uid = INT_UNKNOWN;
    ret->event_type = event->event_type;
    ret->pid = event->pid;
    return 0;
}

void unseen_events_note(struct unseen_events *unseen, const struct process_event_list *events)
{
    for (size_t i = 0; i < events->count; i++) {
        const struct process_event *event = &events->items[i];
        struct process_event copy;

        if (event->event_type != EVENT_OOM && event->event_type != EVENT_EXEC)
            continue;
        if (unseen->events.count < UNSEEN_EVENTS_MAX && copy_event(unseen, event, &copy) == 0)
            VEC_PUSH(&unseen->events, copy);
    }
}

struct process_event_list unseen_events_list(const struct unseen_events *unseen)
{
    return (struct process_event_list){.items = unseen->events.items,
                                       .count = unseen->events.count};
}

void unseen_events_clear(struct unseen_events *unseen)
{
    unseen->events.count = 0;
    arena_reset(&unseen->arena);
}
