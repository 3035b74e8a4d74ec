/* A tick, told to whoever listens: its snapshot, events, anomalies and gaps. */
#pragma once

#include "model/tick-box.h"

struct daemon;

/* Before the box goes to the store. What `profiler.redact` names is hidden in it from then on. */
void publish_tick(struct daemon *daemon, struct tick_box *box);

/* Hides it in a text that is to be published; without memory, all of the text. */
void publish_redact(const struct daemon *daemon, struct arena *arena, const char **text);
/* The same in all texts of events. */
void publish_redact_events(const struct daemon *daemon, struct arena *arena,
                           struct process_event_list *events);
