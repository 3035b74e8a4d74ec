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

struct lifecycle_feed_options {
    struct registry *registry;
    member_fn on_member;                             /* may be NULL */
    void (*on_other_exec)(void *context, pid_t pid); /* of one that is no member; may be NULL */
    void *context;
};

/* Takes the connector over. 0 or a negative errno. */
int lifecycle_feed_start(uv_loop_t *loop, struct connector *connector,
                         const struct lifecycle_feed_options *options, struct lifecycle_feed **ret);
void lifecycle_feed_close(struct lifecycle_feed *feed);

/* The process has just become a member: what has happened to it and to what it has forked since its
 * birth, while it belonged to nobody, is told now, if it is younger than a second or two. Returns
 * whether it was. */
bool lifecycle_feed_replay(struct lifecycle_feed *feed, pid_t pid);

/* Whether `pid` was born as a child of `parent` not long ago, while it belonged to nobody. */
bool lifecycle_feed_saw_fork(const struct lifecycle_feed *feed, pid_t parent, pid_t pid);

/* Brings the registry up to date now. */
void lifecycle_feed_drain(struct lifecycle_feed *feed);

/* Whether events were lost since the last call: then the processes must be looked for. */
bool lifecycle_feed_take_loss(struct lifecycle_feed *feed);
