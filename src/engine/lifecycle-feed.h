/* Lifecycle events into the registry, and on to whoever wants to know: the connector in the loop.
 *
 * Batched: after the first event of a batch the feed sleeps a little before it drains, because a
 * wake-up for each event would cost the observed processes a quarter of their time. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "jobs/registry.h"
#include "probe/connector.h"

struct lifecycle_feed;

/* A member was born (LIFECYCLE_FORK), executed another program, or ended (LIFECYCLE_EXIT): each
 * once for a process, whatever its threads do. `timestamp` is the wall clock. */
typedef void (*member_fn)(void *context, const struct member *member,
                          const struct lifecycle_event *event, double timestamp);

/* Takes the connector over. `on_member` may be NULL. 0 or a negative errno. */
int lifecycle_feed_start(uv_loop_t *loop, struct connector *connector, struct registry *registry,
                         member_fn on_member, void *context, struct lifecycle_feed **ret);
void lifecycle_feed_close(struct lifecycle_feed *feed);

/* Brings the registry up to date now. */
void lifecycle_feed_drain(struct lifecycle_feed *feed);

/* Whether events were lost since the last call: then the processes must be looked for. */
bool lifecycle_feed_take_loss(struct lifecycle_feed *feed);
