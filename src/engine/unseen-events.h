/* Execs and OOM kills that the detector has not seen yet. It runs at snapshots, and the boxes with
 * these events may be gone by then. */
#pragma once

#include "base/arena.h"
#include "base/vec.h"
#include "model/event.h"

/* More execs in one interval are a storm of short programs, whose history does not matter; of OOM
 * kills, the first ones are enough. */
#define UNSEEN_EVENTS_MAX 4096

/* A zero-initialised struct is empty and valid. */
struct unseen_events {
    struct VEC(struct process_event) events;
    struct arena arena; /* holds their texts */
};

void unseen_events_done(struct unseen_events *unseen);

/* Copies execs and OOM kills; without memory, drops them. */
void unseen_events_add(struct unseen_events *unseen, const struct process_event_list *events);
/* Redacts their command lines with other words (model/redact.h); without memory a text becomes
 * unknown. */
void unseen_events_redact(struct unseen_events *unseen, const struct text_list *words);
struct process_event_list unseen_events_list(const struct unseen_events *unseen);
void unseen_events_clear(struct unseen_events *unseen);
