/* An event is encoded once; its reference count is the number of queues that hold it. It is first
 * put into all queues that want it, and then each queue is delivered as far as its subscriber
 * accepts. So all subscribers get the same events in the same order, whatever a handler does
 * meanwhile. A subscriber that leaves during a delivery is freed after it. */
#include "daemon/bus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "base/json-writer.h"
#include "base/map.h"
#include "model/event-name.h"

struct bus_event {
    size_t references;
    struct text json;
};

/* The queues of one user together. */
struct bus_user {
    int64_t uid;
    size_t subscribers;
    size_t bytes;
};

struct bus_subscriber {
    TAILQ_ENTRY(bus_subscriber) link;
    struct bus_user *user; /* NULL: a full view, which has no limit per user */
    bus_fn on_event;
    void *context;
    struct bus_view view;
    struct text_list patterns;
    struct arena arena; /* holds the texts of both */

    struct bus_event *queue[BUS_QUEUE_MAX_EVENTS]; /* a ring */
    size_t first, count;
    size_t bytes;

    struct bus_drops drops;
    unsigned failures_in_row;
    bool is_waiting;    /* its handler returned 1 */
    bool is_delivering; /* on_event is being called */
    bool is_gone;       /* freed after the delivery */
    bool is_served;     /* has the snapshot that is being published */
};

struct bus {
    TAILQ_HEAD(, bus_subscriber) subscribers;
    struct map users; /* struct bus_user, by uid */
    size_t count;     /* subscribers that are not gone */
    struct bus_drops drops;
    unsigned depth; /* number of deliveries in progress, one within the other */
};

/* ---- events ---- */

static struct bus_event *event_new(void)
{
    struct bus_event *event = calloc(1, sizeof(*event));

    if (event)
        event->references = 1;
    return event;
}

/* The content never changes; the reference count does. */
struct bus_event *bus_event_ref(const struct bus_event *event)
{
    struct bus_event *held = (struct bus_event *)(uintptr_t)event;

    held->references++;
    return held;
}

void bus_event_unref(struct bus_event *event)
{
    if (--event->references > 0)
        return;
    text_done(&event->json);
    free(event);
}

DEFINE_CLEANUP(struct bus_event *, bus_event_unref);

const struct text *bus_event_json(const struct bus_event *event)
{
    return &event->json;
}

/* Writes the envelope up to its data. */
static void begin_envelope(struct bus_event *event, const struct bus_message *message)
{
    struct json_writer json = {.out = &event->json};

    json_write_begin_object(&json);
    json_write_key(&json, "event");
    json_write_string(&json, message->event);
    json_write_key(&json, "timestamp");
    json_write_decimal(&json, message->timestamp, 6);
    json_write_key(&json, "job_id");
    json_write_string(&json, message->job_id);
    json_write_key(&json, "sheet_num");
    if (int_is_known(message->sheet_num))
        json_write_int(&json, message->sheet_num);
    else
        json_write_null(&json);
    json_write_key(&json, "data");
}

/* ---- queues ---- */

static void count_drop(struct bus *bus, struct bus_subscriber *subscriber, size_t bytes)
{
    subscriber->drops.events++;
    subscriber->drops.bytes += bytes;
    bus->drops.events++;
    bus->drops.bytes += bytes;
}

/* Account for an event that enters or leaves a queue. */
static void add_bytes(struct bus_subscriber *subscriber, size_t bytes)
{
    subscriber->bytes += bytes;
    if (subscriber->user)
        subscriber->user->bytes += bytes;
}

static void remove_bytes(struct bus_subscriber *subscriber, size_t bytes)
{
    subscriber->bytes -= bytes;
    if (subscriber->user)
        subscriber->user->bytes -= bytes;
}

/* Removes the oldest event from the queue; the caller gets its reference. */
static struct bus_event *pop_oldest(struct bus_subscriber *subscriber)
{
    struct bus_event *event = subscriber->queue[subscriber->first];

    subscriber->first = (subscriber->first + 1) % BUS_QUEUE_MAX_EVENTS;
    subscriber->count--;
    remove_bytes(subscriber, event->json.length);
    return event;
}

static void drop_oldest(struct bus *bus, struct bus_subscriber *subscriber)
{
    struct bus_event *event = pop_oldest(subscriber);

    count_drop(bus, subscriber, event->json.length);
    bus_event_unref(event);
}

static bool has_room(const struct bus_subscriber *subscriber, const struct bus_event *event)
{
    return subscriber->count < BUS_QUEUE_MAX_EVENTS &&
           subscriber->bytes + event->json.length <= BUS_QUEUE_MAX_BYTES;
}

static void enqueue(struct bus *bus, struct bus_subscriber *subscriber, struct bus_event *event)
{
    if (event->json.length > BUS_QUEUE_MAX_BYTES) {
        count_drop(bus, subscriber, event->json.length);
        return;
    }
    while (!has_room(subscriber, event))
        drop_oldest(bus, subscriber);

    size_t last = (subscriber->first + subscriber->count++) % BUS_QUEUE_MAX_EVENTS;
    subscriber->queue[last] = bus_event_ref(event);
    add_bytes(subscriber, event->json.length);
}

/* Puts an event that was not accepted back as the oldest, unless newer ones have filled the queue
 * meanwhile. Takes over the reference. */
static void put_back(struct bus *bus, struct bus_subscriber *subscriber, struct bus_event *event)
{
    if (!has_room(subscriber, event)) {
        count_drop(bus, subscriber, event->json.length);
        bus_event_unref(event);
        return;
    }
    subscriber->first = (subscriber->first + BUS_QUEUE_MAX_EVENTS - 1) % BUS_QUEUE_MAX_EVENTS;
    subscriber->queue[subscriber->first] = event;
    subscriber->count++;
    add_bytes(subscriber, event->json.length);
}

static void clear_queue(struct bus_subscriber *subscriber)
{
    while (subscriber->count)
        bus_event_unref(pop_oldest(subscriber));
}

/* ---- delivery ---- */

static void leave_user(struct bus *bus, struct bus_user *user)
{
    if (user && --user->subscribers == 0)
        free(map_remove(&bus->users, (uint64_t)user->uid));
}

static void subscriber_free(struct bus *bus, struct bus_subscriber *subscriber)
{
    clear_queue(subscriber);
    leave_user(bus, subscriber->user);
    arena_done(&subscriber->arena);
    free(subscriber);
}

/* Disables a subscriber after too many failures in a row. */
static void count_failure(struct bus *bus, struct bus_subscriber *subscriber)
{
    if (++subscriber->failures_in_row < BUS_FAILURES_MAX)
        return;
    subscriber->drops.is_disabled = bus->drops.is_disabled = true;
    while (subscriber->count)
        drop_oldest(bus, subscriber);
}

static void deliver_oldest(struct bus *bus, struct bus_subscriber *subscriber)
{
    _cleanup_(bus_event_unrefp) struct bus_event *event = pop_oldest(subscriber);
    int r = subscriber->on_event(subscriber->context, event);

    if (r > 0 && !subscriber->is_gone) {
        subscriber->is_waiting = true;
        put_back(bus, subscriber, TAKE_PTR(event));
    } else if (r < 0) {
        count_drop(bus, subscriber, event->json.length);
        count_failure(bus, subscriber);
    } else {
        subscriber->failures_in_row = 0;
    }
}

static void deliver(struct bus *bus, struct bus_subscriber *subscriber)
{
    if (subscriber->is_delivering)
        return; /* a handler has published; its event is delivered in order */
    subscriber->is_delivering = true;
    while (subscriber->count && !subscriber->is_waiting)
        deliver_oldest(bus, subscriber);
    subscriber->is_delivering = false;
}

static void begin_delivery(struct bus *bus)
{
    bus->depth++;
}

static void end_delivery(struct bus *bus)
{
    struct bus_subscriber *subscriber, *next;

    if (--bus->depth > 0)
        return;
    for (subscriber = TAILQ_FIRST(&bus->subscribers); subscriber; subscriber = next) {
        next = TAILQ_NEXT(subscriber, link);
        if (subscriber->is_gone) {
            TAILQ_REMOVE(&bus->subscribers, subscriber, link);
            subscriber_free(bus, subscriber);
        }
    }
}

static struct bus_subscriber *find_fullest(const struct bus *bus, const struct bus_user *user)
{
    struct bus_subscriber *subscriber, *fullest = NULL;

    TAILQ_FOREACH (subscriber, &bus->subscribers, link)
        if (subscriber->user == user && (!fullest || subscriber->bytes > fullest->bytes))
            fullest = subscriber;
    return fullest;
}

/* Drops the oldest events of users whose queues hold too much. */
static void limit_users(struct bus *bus)
{
    size_t position = 0;

    for (const struct bus_user *user; (user = map_next(&bus->users, &position));)
        while (user->bytes > BUS_USER_MAX_BYTES)
            drop_oldest(bus, find_fullest(bus, user));
}

static void deliver_all(struct bus *bus)
{
    struct bus_subscriber *subscriber;

    begin_delivery(bus);
    TAILQ_FOREACH (subscriber, &bus->subscribers, link)
        deliver(bus, subscriber);
    limit_users(bus);
    end_delivery(bus);
}

/* ---- subscribers ---- */

int bus_new(struct bus **ret)
{
    struct bus *bus = calloc(1, sizeof(*bus));

    if (!bus)
        return -ENOMEM;
    TAILQ_INIT(&bus->subscribers);
    *ret = bus;
    return 0;
}

void bus_free(struct bus *bus)
{
    struct bus_subscriber *subscriber;

    if (!bus)
        return;
    while ((subscriber = TAILQ_FIRST(&bus->subscribers))) {
        TAILQ_REMOVE(&bus->subscribers, subscriber, link);
        subscriber_free(bus, subscriber);
    }
    map_done(&bus->users);
    free(bus);
}

static bool is_pattern(const char *pattern)
{
    const char *star = strchr(pattern, '*');
    return *pattern && (!star || !star[1]);
}

static int copy_patterns(struct bus_subscriber *subscriber, const char *const *patterns,
                         size_t count)
{
    struct text_list *copies = &subscriber->patterns;

    copies->items = arena_alloc(&subscriber->arena, count * sizeof(char *));
    for (size_t i = 0; copies->items && i < count; i++) {
        copies->items[i] = arena_strdup(&subscriber->arena, patterns[i]);
        if (!copies->items[i])
            return -ENOMEM;
        copies->count++;
    }
    return copies->items ? 0 : -ENOMEM;
}

static int copy_view(struct bus_subscriber *subscriber, const struct bus_view *view)
{
    subscriber->view = *view;
    if (!view->job)
        return 0;
    subscriber->view.job = arena_strdup(&subscriber->arena, view->job);
    return subscriber->view.job ? 0 : -ENOMEM;
}

static int join_user(struct bus *bus, struct bus_subscriber *subscriber)
{
    int64_t uid = subscriber->view.uid;
    struct bus_user *user = map_get(&bus->users, (uint64_t)uid);

    if (subscriber->view.sees_all)
        return 0;
    if (!user) {
        user = calloc(1, sizeof(*user));
        if (!user || map_put(&bus->users, (uint64_t)uid, user) < 0) {
            free(user);
            return -ENOMEM;
        }
        user->uid = uid;
    }
    user->subscribers++;
    subscriber->user = user;
    return 0;
}

int bus_subscribe(struct bus *bus, const char *const *patterns, size_t count,
                  const struct bus_view *view, bus_fn on_event, void *context,
                  struct bus_subscriber **ret)
{
    if (count == 0 || count > BUS_PATTERNS_MAX)
        return -EINVAL;
    for (size_t i = 0; i < count; i++)
        if (!is_pattern(patterns[i]))
            return -EINVAL;

    struct bus_subscriber *subscriber = calloc(1, sizeof(*subscriber));
    if (!subscriber)
        return -ENOMEM;
    subscriber->on_event = on_event;
    subscriber->context = context;
    int r = copy_patterns(subscriber, patterns, count);
    if (r == 0)
        r = copy_view(subscriber, view);
    if (r == 0)
        r = join_user(bus, subscriber);
    if (r < 0) {
        subscriber_free(bus, subscriber);
        return r;
    }
    TAILQ_INSERT_TAIL(&bus->subscribers, subscriber, link);
    bus->count++;
    *ret = subscriber;
    return 0;
}

void bus_unsubscribe(struct bus *bus, struct bus_subscriber *subscriber)
{
    clear_queue(subscriber);
    subscriber->is_gone = true;
    bus->count--;
    begin_delivery(bus);
    end_delivery(bus);
}

void bus_resume(struct bus *bus, struct bus_subscriber *subscriber)
{
    subscriber->is_waiting = false;
    begin_delivery(bus);
    deliver(bus, subscriber);
    end_delivery(bus);
}

struct bus_drops bus_subscriber_drops(const struct bus_subscriber *subscriber)
{
    return subscriber->drops;
}

struct bus_drops bus_drops(const struct bus *bus)
{
    return bus->drops;
}

size_t bus_subscriber_count(const struct bus *bus)
{
    return bus->count;
}

/* ---- publishing ---- */

static bool wants(const struct bus_subscriber *subscriber, const char *name)
{
    if (subscriber->is_gone || subscriber->drops.is_disabled)
        return false;
    for (size_t i = 0; i < subscriber->patterns.count; i++)
        if (event_name_matches(subscriber->patterns.items[i], name))
            return true;
    return false;
}

static bool may_see(const struct bus_view *view, const struct bus_message *message)
{
    return view->sees_all || message->is_public ||
           (int_is_known(message->uid) && view->uid == message->uid);
}

static bool wants_message(const struct bus_subscriber *subscriber,
                          const struct bus_message *message)
{
    return wants(subscriber, message->event) && may_see(&subscriber->view, message);
}

bool bus_is_wanted(const struct bus *bus, const char *event)
{
    struct bus_subscriber *subscriber;

    TAILQ_FOREACH (subscriber, &bus->subscribers, link)
        if (wants(subscriber, event))
            return true;
    return false;
}

/* NULL without memory. */
static struct bus_event *encode_message(const struct bus_message *message)
{
    _cleanup_(bus_event_unrefp) struct bus_event *event = event_new();

    if (!event || (message->data && text_error(message->data) < 0))
        return NULL;
    begin_envelope(event, message);
    text_append_string(
        &event->json, message->data && message->data->length ? text_string(message->data) : "null");
    text_append_char(&event->json, '}');
    return text_error(&event->json) < 0 ? NULL : TAKE_PTR(event);
}

void bus_publish(struct bus *bus, const struct bus_message *message)
{
    struct bus_subscriber *subscriber;

    if (!bus_is_wanted(bus, message->event))
        return;
    _cleanup_(bus_event_unrefp) struct bus_event *event = encode_message(message);
    TAILQ_FOREACH (subscriber, &bus->subscribers, link) {
        if (!wants_message(subscriber, message))
            continue;
        if (event)
            enqueue(bus, subscriber, event);
        else
            count_drop(bus, subscriber, 0);
    }
    deliver_all(bus);
}

/* ---- snapshots ---- */

struct snapshot_message {
    const struct snapshot *snapshot;
    int64_t (*owner_of)(void *context, const char *run_id);
    void *context;
};

static bool is_same_view(const struct bus_view *a, const struct bus_view *b)
{
    if (a->sees_all != b->sees_all || (!a->sees_all && a->uid != b->uid))
        return false;
    return a->job && b->job ? strcmp(a->job, b->job) == 0 : a->job == b->job;
}

/* NULL without memory. */
static struct bus_event *encode_part(const struct snapshot_message *message,
                                     const struct bus_view *view)
{
    _cleanup_(bus_event_unrefp) struct bus_event *event = event_new();

    if (!event)
        return NULL;
    begin_envelope(event, &(struct bus_message){.event = event_name_text(EVENT_NAME_SNAPSHOT),
                                                .timestamp = message->snapshot->timestamp,
                                                .sheet_num = INT_UNKNOWN});
    bus_encode_snapshot(message->snapshot, view, message->owner_of, message->context, &event->json);
    text_append_char(&event->json, '}');
    return text_error(&event->json) < 0 ? NULL : TAKE_PTR(event);
}

/* Queues the snapshot for `first` and for all later subscribers with the same view. */
static void serve_view(struct bus *bus, struct bus_subscriber *first,
                       const struct snapshot_message *message)
{
    _cleanup_(bus_event_unrefp) struct bus_event *event = encode_part(message, &first->view);

    for (struct bus_subscriber *subscriber = first; subscriber;
         subscriber = TAILQ_NEXT(subscriber, link)) {
        if (subscriber->is_served || !is_same_view(&subscriber->view, &first->view))
            continue;
        subscriber->is_served = true;
        if (event)
            enqueue(bus, subscriber, event);
        else
            count_drop(bus, subscriber, 0);
    }
}

void bus_publish_snapshot(struct bus *bus, const struct snapshot *snapshot,
                          int64_t (*owner_of)(void *context, const char *run_id), void *context)
{
    const struct snapshot_message message = {snapshot, owner_of, context};
    struct bus_subscriber *subscriber;

    TAILQ_FOREACH (subscriber, &bus->subscribers, link)
        subscriber->is_served = !wants(subscriber, event_name_text(EVENT_NAME_SNAPSHOT));
    TAILQ_FOREACH (subscriber, &bus->subscribers, link)
        if (!subscriber->is_served)
            serve_view(bus, subscriber, &message);
    deliver_all(bus);
}
