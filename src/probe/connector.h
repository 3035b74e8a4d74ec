/* The process connector: forks, execs and exits of all processes over netlink. Works only in the
 * initial pid namespace. Needs CAP_NET_ADMIN before Linux 6.6, no privileges since.
 *
 * Events queue in the kernel, in order, until they are drained. A reader should sleep between
 * drains: a wakeup for each event slows the observed processes by a quarter. If the queue
 * overflows, events are lost; connector_drain() reports that, and the caller must rescan. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "probe/lifecycle.h"

struct connector;

/* Starts to queue events. Returns 0 or a negative errno: -EPERM (not permitted to this user),
 * -EOPNOTSUPP (not available in this kernel or pid namespace). */
int connector_open(struct connector **ret);
void connector_close(struct connector *connector);

/* Returns a descriptor, owned by the connector, that is readable when events are queued. */
int connector_fd(const struct connector *connector);

/* Returns the number of events that the queue can hold, by the size that the kernel has granted. */
size_t connector_capacity(const struct connector *connector);

/* Calls `on_event` for the queued events, up to a large number; if more are queued, the descriptor
 * stays readable. Returns 0, 1 if events were lost, or a negative errno. */
int connector_drain(struct connector *connector, lifecycle_fn on_event, void *context);

/* Parses one datagram from the kernel. Returns 0, or -EBADMSG if it is malformed, possibly after
 * calls for the events before the malformed part. */
int connector_parse(const void *bytes, size_t length, lifecycle_fn on_event, void *context);

/* Searches one datagram from the kernel for the answer to the request with this `ack`. Answers to
 * requests of other processes arrive as well, even if the kernel has ignored ours. Returns the
 * answer (0 or a negative errno), or 1 if the datagram does not contain it. */
int connector_parse_answer(const void *bytes, size_t length, uint32_t ack);
