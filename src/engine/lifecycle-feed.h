/* Feeds lifecycle events into the registry and to the engine, from the connector or from sonde's
 * BPF programs, which report more.
 *
 * Rare events of the connector are read at once, because they lack the name of a program, which
 * must be read while the process exists. Frequent ones are read in batches: after the first event
 * of a batch the feed sleeps a little before it drains, because a wake-up for each event would cost
 * the observed processes a quarter of their time. Events of the BPF programs are always batched. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "jobs/registry.h"
#include "probe/bpf/kernel-probe.h"
#include "probe/connector.h"

struct lifecycle_feed;

/* Called if a member was forked, executed a program or ended (each once per process, whatever its
 * threads do), if a signal was sent to it, or if the kernel kills it for its memory. `timestamp` is
 * the wall clock. */
typedef void (*member_fn)(void *context, struct member *member, const struct lifecycle_event *event,
                          double timestamp);

struct lifecycle_feed_options {
    struct registry *registry;
    member_fn on_member; /* may be NULL */
    /* Called for a fork or an end from the BPF programs, with the usage of the process: before
     * on_member, and also if the connector has reported the event. May be NULL. */
    void (*on_account)(void *context, struct member *member, const struct lifecycle_event *event);
    /* Called for an exec or an OOM kill of a process that is not a member; may be NULL. With
     * remembers_others, an OOM kill is reported only after `others_ns`, or earlier if the ring is
     * full: the process may become a member before. */
    void (*on_other)(void *context, const struct lifecycle_event *event, double timestamp);
    bool remembers_others; /* events of processes without a run, for lifecycle_feed_replay() */
    uint64_t others_ns;    /* for how long; 0: 2 s */
    /* How long the connector is still read after lifecycle_feed_use_kernel(); 0: as long as forks
     * and exits in progress usually take. */
    uint64_t former_ns;
    void *context;
};

/* The source of events: exactly one of them. */
struct lifecycle_source {
    struct connector *connector; /* the feed takes ownership */
    struct kernel_probe *kernel; /* borrowed */
};

/* Starts the feed. Returns 0, or a negative errno; then the caller still owns the source. */
int lifecycle_feed_start(uv_loop_t *loop, const struct lifecycle_source *source,
                         const struct lifecycle_feed_options *options, struct lifecycle_feed **ret);
void lifecycle_feed_close(struct lifecycle_feed *feed);

/* Changes from the connector to the BPF programs. All members must be tagged, so that none is
 * missed; events from both sources are reported once. Returns 0, or a negative errno with the
 * connector kept. */
int lifecycle_feed_use_kernel(struct lifecycle_feed *feed, struct kernel_probe *kernel);

/* If the end of the process is being reported, waits up to `patience_ns` for it, and reports it. */
void lifecycle_feed_settle(struct lifecycle_feed *feed, pid_t pid, uint64_t patience_ns);

/* The process has just become a member: reports the remembered events of it and of its descendants
 * since its fork, if that was at most `others_ns` ago. Returns whether its fork was among them;
 * *ret_is_complete is whether nothing is missing since. */
bool lifecycle_feed_replay(struct lifecycle_feed *feed, pid_t pid, bool *ret_is_complete);

/* Returns whether `parent` forked `pid` recently, as a process without a run. */
bool lifecycle_feed_saw_fork(const struct lifecycle_feed *feed, pid_t parent, pid_t pid);

/* Reports the held OOM kills, and holds no more. */
void lifecycle_feed_report_held_kills(struct lifecycle_feed *feed);

/* Reads the queued events now. */
void lifecycle_feed_drain(struct lifecycle_feed *feed);

/* Returns whether events were lost since the last call of lifecycle_feed_take_loss(). */
bool lifecycle_feed_has_lost(const struct lifecycle_feed *feed);
/* Returns whether events were lost since the last call: then /proc must be scanned for processes.
 */
bool lifecycle_feed_take_loss(struct lifecycle_feed *feed);
