/* Lifecycle events into the registry, and on to whoever wants to know: the connector in the loop,
 * or sonde's own programs in the kernel, which tell more.
 *
 * Batched: after the first event of a batch the feed sleeps a little before it drains, because a
 * wake-up for each event would cost the observed processes a quarter of their time. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "jobs/registry.h"
#include "probe/bpf/kernel-probe.h"
#include "probe/connector.h"

struct lifecycle_feed;

/* A member was born (LIFECYCLE_FORK), executed another program, or ended (LIFECYCLE_EXIT): each
 * once for a process, whatever its threads do; or a signal is on its way to it, or the kernel kills
 * it for its memory. `timestamp` is the wall clock. */
typedef void (*member_fn)(void *context, struct member *member, const struct lifecycle_event *event,
                          double timestamp);

struct lifecycle_feed_options {
    struct registry *registry;
    member_fn on_member; /* may be NULL */
    /* A birth or an end as the kernel's own programs tell it, with what it has cost; before
     * on_member, and also if the connector has told of it. May be NULL. */
    void (*on_account)(void *context, struct member *member, const struct lifecycle_event *event);
    /* An exec or an OOM kill of a process that is no member; may be NULL. If others are
     * remembered, an OOM kill is reported after `others_ns`, in case that a run claims it until
     * then; or earlier if too much happens to others. */
    void (*on_other)(void *context, const struct lifecycle_event *event, double timestamp);
    bool remembers_others; /* for lifecycle_feed_replay() */
    uint64_t others_ns;    /* … for how long; 0: for 2 s */
    /* How long the connector is read at least after lifecycle_feed_use_kernel(); 0: as long as
     * processes usually take that were on their way in or out. */
    uint64_t former_ns;
    void *context;
};

/* Where events come from: one of them. */
struct lifecycle_source {
    struct connector *connector; /* the feed's from then on */
    struct kernel_probe *kernel; /* not the feed's: it must outlive it */
};

/* 0 or a negative errno, with the source still the caller's. */
int lifecycle_feed_start(uv_loop_t *loop, const struct lifecycle_source *source,
                         const struct lifecycle_feed_options *options, struct lifecycle_feed **ret);
void lifecycle_feed_close(struct lifecycle_feed *feed);

/* From the connector to the kernel's programs: all members are known to these by now, so that none
 * is missing, and what both tell of is told once. 0 or a negative errno, with the connector as it
 * was. */
int lifecycle_feed_use_kernel(struct lifecycle_feed *feed, struct kernel_probe *kernel);

/* A process is said to be over: if its end is on its way, it is waited for, for that long at most,
 * and reported now. */
void lifecycle_feed_settle(struct lifecycle_feed *feed, pid_t pid, uint64_t patience_ns);

/* The process has just become a member: what has happened to it and to what it has forked since its
 * birth, while it belonged to no run, is reported now, if it is younger than a second or two.
 * Returns whether its birth was among that; *ret_is_complete is whether nothing is missing since.
 */
bool lifecycle_feed_replay(struct lifecycle_feed *feed, pid_t pid, bool *ret_is_complete);

/* Whether `pid` was born as a child of `parent` not long ago, while it belonged to nobody. */
bool lifecycle_feed_saw_fork(const struct lifecycle_feed *feed, pid_t parent, pid_t pid);

/* Reports the OOM kills that are held, and holds no more. */
void lifecycle_feed_report_held_kills(struct lifecycle_feed *feed);

/* Brings the registry up to date now. */
void lifecycle_feed_drain(struct lifecycle_feed *feed);

bool lifecycle_feed_has_lost(const struct lifecycle_feed *feed);
/* Whether events were lost since the last call: then the processes must be looked for. */
bool lifecycle_feed_take_loss(struct lifecycle_feed *feed);
