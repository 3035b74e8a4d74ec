#include "engine/unseen-events.h"

#include "model/record-copy.h"
#include "model/redact.h"

void unseen_events_done(struct unseen_events *unseen)
{
    VEC_DONE(&unseen->events);
    arena_done(&unseen->arena);
}

void unseen_events_add(struct unseen_events *unseen, const struct process_event_list *events)
{
    for (size_t i = 0; i < events->count; i++) {
        const struct process_event *event = &events->items[i];
        struct process_event copy;

        if ((event->event_type != EVENT_OOM && event->event_type != EVENT_EXEC) ||
            unseen->events.count >= UNSEEN_EVENTS_MAX)
            continue;
        if (event->event_type == EVENT_EXEC) { /* only the process matters */
            record_init(&process_event_record, &copy);
            copy.uid = INT_UNKNOWN;
            copy.event_type = EVENT_EXEC;
            copy.pid = event->pid;
        } else if (record_copy(&process_event_record, event, &unseen->arena, &copy) < 0) {
            continue;
        }
        VEC_PUSH(&unseen->events, copy);
    }
}

void unseen_events_redact(struct unseen_events *unseen, const struct text_list *words)
{
    for (size_t i = 0; i < unseen->events.count; i++)
        redact_record(words, &process_event_record, &unseen->arena, &unseen->events.items[i]);
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
