/* What the detector has to hear of at the next snapshot, though the box that it came in may have
 * been handed on before: programs that were executed, and kills for memory. */
#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "model/event.h"

/* More programs in one interval are a storm of short ones, whose past is of no interest; of kills,
 * the first ones tell what there is to tell. */
#define UNSEEN_EVENTS_MAX 4096

/* Zero-initialised is empty and valid. */
struct unseen_events {
    struct VEC(struct process_event) events;
    struct arena arena; /* holds their texts */
};

void unseen_events_done(struct unseen_events *unseen);

/* Without memory, one is not heard of. */
void unseen_events_note(struct unseen_events *unseen, const struct process_event_list *events);
struct process_event_list unseen_events_list(const struct unseen_events *unseen);
void unseen_events_clear(struct unseen_events *unseen);
