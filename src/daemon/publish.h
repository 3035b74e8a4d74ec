/* Publishes a tick on the bus: its snapshot, events, anomalies and gaps. */
#pragma once

#include "model/tick-box.h"

struct daemon;

/* Call it before the box goes to the store: it redacts the box in place. */
void publish_tick(struct daemon *daemon, struct tick_box *box);

/* Redacts a text before it is published; without memory, the whole text. */
void publish_redact(const struct daemon *daemon, struct arena *arena, const char **text);
/* The same in all texts of events. */
void publish_redact_events(const struct daemon *daemon, struct arena *arena,
                           struct process_event_list *events);
