/* The bus: delivers published events to subscribers. Publishing never waits.
 *
 * Each subscriber has a queue that is bounded in events and bytes; when it is full, it drops and
 * counts the oldest events. The queues of one user are bounded together as well. Queues share the
 * encoded events. A subscriber has a view: events of other users are not queued for it, and a
 * snapshot is encoded once for each view, with the part that the view may see. Belongs to the
 * loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "model/event.h"
#include "model/snapshot.h"

#define BUS_QUEUE_MAX_EVENTS 1000
#define BUS_QUEUE_MAX_BYTES  (8 * 1024 * 1024)
/* The limit for all queues of one user without full view; beyond it, the fullest queue drops its
 * oldest events. */
#define BUS_USER_MAX_BYTES (32 * 1024 * 1024)
/* Failures in a row after which a subscriber is disabled. */
#define BUS_FAILURES_MAX 10
#define BUS_PATTERNS_MAX 32

/* What a subscriber may see. */
struct bus_view {
    bool sees_all;
    int64_t uid;     /* otherwise: data of this user and of the machine */
    const char *job; /* only processes of this job; NULL: all */
};

/* A published event: its envelope as JSON, shared by all queues. */
struct bus_event;

/* {"event": …, "timestamp": …, "job_id": …, "sheet_num": …, "data": …} */
const struct text *bus_event_json(const struct bus_event *event);

/* Adds a reference, for a subscriber that keeps the event after on_event has returned; it must call
 * bus_event_unref(). */
struct bus_event *bus_event_ref(const struct bus_event *event);
void bus_event_unref(struct bus_event *event);

/* Handles an event. Returns 0 (accepted), 1 (no room; the subscriber calls bus_resume() later) or a
 * negative errno (the event is lost). It may publish, subscribe, and unsubscribe any subscriber. */
typedef int (*bus_fn)(void *context, const struct bus_event *event);

struct bus;
struct bus_subscriber;

/* Returns 0 or -ENOMEM. */
int bus_new(struct bus **ret);
/* Frees the subscribers, too. */
void bus_free(struct bus *bus);

/* `patterns` are names, or prefixes such as `sheet.*` or `*`; they and the view are copied. Returns
 * 0, -EINVAL (none, too many, or a star that is not at the end) or -ENOMEM. */
int bus_subscribe(struct bus *bus, const char *const *patterns, size_t count,
                  const struct bus_view *view, bus_fn on_event, void *context,
                  struct bus_subscriber **ret);
void bus_unsubscribe(struct bus *bus, struct bus_subscriber *subscriber);

/* Called when the subscriber has room again: delivers its queued events. Must not be called from
 * on_event. */
void bus_resume(struct bus *bus, struct bus_subscriber *subscriber);

/* Events that a subscriber missed. */
struct bus_drops {
    uint64_t events; /* dropped for lack of room or memory, or failed in the handler */
    uint64_t bytes;
    bool is_disabled; /* its handler failed too often; events since then are not counted */
};

struct bus_drops bus_subscriber_drops(const struct bus_subscriber *subscriber);
/* The sum over all subscribers so far; is_disabled: at least one was disabled. */
struct bus_drops bus_drops(const struct bus *bus);
/* The number of subscribers. */
size_t bus_subscriber_count(const struct bus *bus);

/* An event to publish; `data` is one JSON value. */
struct bus_message {
    const char *event; /* see event_name_text() */
    double timestamp;
    const char *job_id;
    int64_t sheet_num;
    int64_t uid;    /* owner; INT_UNKNOWN: only for full views */
    bool is_public; /* about the machine: visible to everyone */
    const struct text *data;
};

/* Whether any subscriber wants events of that name. */
bool bus_is_wanted(const struct bus *bus, const char *event);

/* Queues the event for all subscribers that want and may see it, and delivers the queues. Without
 * memory the event is counted as dropped for them. Publishing may disable a subscriber, but never
 * removes one. */
void bus_publish(struct bus *bus, const struct bus_message *message);
/* Publishes a snapshot: to each view the part that it may see. `owner_of` returns the uid of a run
 * (INT_UNKNOWN: no such run). */
void bus_publish_snapshot(struct bus *bus, const struct snapshot *snapshot,
                          int64_t (*owner_of)(void *context, const char *run_id), void *context);

/* Writes the part of a snapshot that a view may see as JSON: the processes of its user and runs,
 * its jobs with their progress, its zombies, and the figures of the machine. `job` of the view is a
 * job_id or a run_id. Errors are in `out`. */
void bus_encode_snapshot(const struct snapshot *snapshot, const struct bus_view *view,
                         int64_t (*owner_of)(void *context, const char *run_id), void *context,
                         struct text *out);
