/* The process connector: forks, execs and exits of all processes over netlink. Needs no privileges
 * since Linux 6.6 (CAP_NET_ADMIN before), and sonde must be in the initial pid namespace.
 *
 * Events queue in the kernel until they are drained, in order: a reader may sleep between drains,
 * and should, because a wake-up for each event costs the observed processes a quarter of their
 * time. A queue that overflows loses events; the drain says so, and the caller looks for itself. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "probe/lifecycle.h"

struct connector;

/* Events that happen after this returned will be seen. 0 or a negative errno: -EPERM (not for this
 * user), -EOPNOTSUPP (no such thing in this kernel or pid namespace). */
int connector_open(struct connector **ret);
void connector_close(struct connector *connector);

/* Readable when there is something to drain. */
int connector_fd(const struct connector *connector);

/* How many events the queue holds, as far as the kernel has granted it. */
size_t connector_capacity(const struct connector *connector);

/* Hands the queued events to `on_event`, all but those past a large number, which the descriptor
 * stays readable for. 0; 1 if events were lost before or between them; or a
 * negative errno. */
int connector_drain(struct connector *connector, lifecycle_fn on_event, void *context);

/* Parses one datagram from the kernel. 0, or -EBADMSG if it is malformed: events before the bad
 * part have been handed over. */
int connector_parse(const void *bytes, size_t length, lifecycle_fn on_event, void *context);

/* Looks in one datagram from the kernel for its answer to the request with this `ack`; answers to
 * the requests of other processes arrive as well, even where the kernel has ignored this one. 0, a
 * negative errno, or 1 if the answer is not there. */
int connector_parse_answer(const void *bytes, size_t length, uint32_t ack);
