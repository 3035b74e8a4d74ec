/* Publishes a tick on the bus: its snapshot, events, anomalies and gaps. */
#pragma once

#include "model/tick-box.h"

struct daemon;

/* Redacts the box in place and publishes its content. Call it before the box goes to the store. */
void publish_tick(struct daemon *daemon, struct tick_box *box);

/* Redacts a text; the replacement is placed in `arena`. Without memory, *text becomes NULL. */
void publish_redact(const struct daemon *daemon, struct arena *arena, const char **text);
/* Redacts all texts of the events in the same way. */
void publish_redact_events(const struct daemon *daemon, struct arena *arena,
                           struct process_event_list *events);
