/* Lifecycle events into the registry: the connector in the loop.
 *
 * Batched: after the first event of a batch the feed sleeps a little before it drains, because a
 * wake-up for each event would cost the observed processes a quarter of their time. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "jobs/registry.h"
#include "probe/connector.h"

struct lifecycle_feed;

/* Takes the connector over. 0 or a negative errno. */
int lifecycle_feed_start(uv_loop_t *loop, struct connector *connector, struct registry *registry,
                         struct lifecycle_feed **ret);
void lifecycle_feed_close(struct lifecycle_feed *feed);

/* Brings the registry up to date now. */
void lifecycle_feed_drain(struct lifecycle_feed *feed);

/* Whether events were lost since the last call: then the processes must be looked for. */
bool lifecycle_feed_take_loss(struct lifecycle_feed *feed);
