/* Publishes a tick on the bus: its snapshot, events, anomalies and gaps. */
#pragma once

#include "model/tick.h"

struct daemon;

void publish_tick(struct daemon *daemon, const struct tick *tick);
