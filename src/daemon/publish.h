/* A tick, told to whoever listens: its snapshot, events, anomalies and gaps. */
#pragma once

#include "engine/tick-box.h"

struct daemon;

/* Before the box goes to the store. */
void publish_tick(struct daemon *daemon, const struct tick_box *box);
