/* The bus: what happens, to whoever wants to know. Publishers never wait.
 *
 * Each subscriber has a queue of its own, bounded in number and bytes, that drops its oldest and
 * counts; those of one user are bounded together as well. What is queued is shared, not copied. Who
 * may see what: a subscriber has a view; what belongs to another user is not queued for it, and of
 * a snapshot it gets its own part, encoded once for all subscribers with the same view. Belongs to
 * the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "model/event.h"
#include "model/snapshot.h"

#define BUS_QUEUE_MAX_EVENTS 1000
#define BUS_QUEUE_MAX_BYTES  (8 * 1024 * 1024)
/* In the queues of one user who does not see all, each by itself: then the fullest drops its
 * oldest.
 */
#define BUS_USER_MAX_BYTES (32 * 1024 * 1024)
/* Failures in a row after which a subscriber is disabled. */
#define BUS_FAILURES_MAX 10
#define BUS_PATTERNS_MAX 32

/* Whose things are seen. */
struct bus_view {
    bool sees_all;
    int64_t uid;     /* if it does not: those of this user, and the machine's */
    const char *job; /* of snapshots: the processes of this job only; NULL: all */
};

/* What is published: the envelope as JSON, shared by all queues that it is in. */
struct bus_event;

/* {"event": …, "timestamp": …, "job_id": …, "sheet_num": …, "data": …} */
const struct text *bus_event_json(const struct bus_event *event);

/* For a subscriber that is not done with it when on_event returns. */
struct bus_event *bus_event_ref(const struct bus_event *event);
void bus_event_unref(struct bus_event *event);

/* 0: taken; 1: not now, bus_resume() will be called; negative: it failed, and the event is lost.
 * It may publish, subscribe and unsubscribe, whoever that is. */
typedef int (*bus_fn)(void *context, const struct bus_event *event);

struct bus;
struct bus_subscriber;

int bus_new(struct bus **ret);
/* Subscribers are gone with it. */
void bus_free(struct bus *bus);

/* `patterns` are names, or prefixes such as `sheet.*` or `*`. They and the view are copied. 0,
 * -EINVAL (none, too many, or a star that is not at the end) or -ENOMEM. */
int bus_subscribe(struct bus *bus, const char *const *patterns, size_t count,
                  const struct bus_view *view, bus_fn on_event, void *context,
                  struct bus_subscriber **ret);
void bus_unsubscribe(struct bus *bus, struct bus_subscriber *subscriber);

/* There is room again: gives what is queued. Not to be called from within on_event. */
void bus_resume(struct bus *bus, struct bus_subscriber *subscriber);

/* What a subscriber has missed, until it was disabled. */
struct bus_drops {
    uint64_t events; /* that found no room or no memory, or that it failed to take */
    uint64_t bytes;
    uint64_t failures; /* of its handler */
    bool is_disabled;
};

struct bus_drops bus_subscriber_drops(const struct bus_subscriber *subscriber);
/* Of all there have ever been; is_disabled: one of them was. */
struct bus_drops bus_drops(const struct bus *bus);
size_t bus_subscriber_count(const struct bus *bus);

/* What is to be published; `data` is JSON of one value. */
struct bus_news {
    const char *event;
    double timestamp;
    const char *job_id;
    int64_t sheet_num;
    int64_t uid;    /* whose it is; INT_UNKNOWN: for those alone who see all */
    bool is_public; /* the machine's: everyone may see it */
    const struct text *data;
};

/* Whether anybody wants events of that name: what nobody wants need not be made. */
bool bus_is_wanted(const struct bus *bus, const char *event);

/* What there is no memory for is counted as dropped for all. A subscriber may be disabled by it,
 * never removed. */
void bus_publish(struct bus *bus, const struct bus_news *news);
/* Each view gets its own part; nothing is encoded that nobody wants. `owner_of` tells whose run a
 * process or a job belongs to, by its run_id (INT_UNKNOWN: nobody's). */
void bus_publish_snapshot(struct bus *bus, const struct snapshot *snapshot,
                          int64_t (*owner_of)(void *context, const char *run_id), void *context);

/* The part of a snapshot that a view may see, as JSON: processes of its user and of its runs, its
 * jobs and their progress, the zombies among these; figures of the machine are everyone's. `job` of
 * the view may be a job_id or a run_id. Errors are the buffer's. */
void bus_encode_snapshot(const struct snapshot *snapshot, const struct bus_view *view,
                         int64_t (*owner_of)(void *context, const char *run_id), void *context,
                         struct text *out);
