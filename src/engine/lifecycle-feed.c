#include "engine/lifecycle-feed.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "loop/fd-watch.h"

/* As long as the queue surely lasts: children of vfork that end at once make 50 events in a
 * millisecond, and half of the queue is left for a wake-up that comes late. The queue of an
 * ordinary user holds some 550 events unless the machine's limit was raised: 5 ms. */
#define EVENTS_PER_MSEC 100
#define NAP_MAX_MSEC    20

/* Of processes that belong to nobody: between the fork of a command and the word of its parent that
 * it is a job, others may have come and gone. */
#define STRANGERS_MAX    4096
#define STRANGERS_MAX_NS (2 * NS_PER_SEC)

struct lifecycle_feed {
    struct lifecycle_event strangers[STRANGERS_MAX]; /* a ring; pid 0: told of since */
    size_t stranger_count;                           /* that there have been */
    struct connector *connector;
    struct lifecycle_feed_options options;
    pid_t own_pid;
    uint64_t mono_to_real_ns; /* the wall clock less the monotonic one, when last drained */
    struct fd_watch *watch;
    uv_timer_t nap;
    uint64_t nap_msec;
    bool has_lost;
};

static void tell(struct lifecycle_feed *feed, const struct member *member,
                 const struct lifecycle_event *event)
{
    if (member && feed->options.on_member)
        feed->options.on_member(feed->options.context, member, event,
                                ns_to_sec(event->mono_ns + feed->mono_to_real_ns));
}

static void on_fork(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    const struct member *known = registry_find(feed->options.registry, event->pid);
    /* What sonde has started itself is a member before the kernel tells of it. */
    bool is_own = known && !known->has_ended && !known->was_found && event->ppid == feed->own_pid;

    /* One that could not be noted is lost like one that was never told. */
    if (registry_fork(feed->options.registry, event->ppid, event->pid) < 0)
        feed->has_lost = true;
    else if (!is_own)
        tell(feed, registry_find(feed->options.registry, event->pid), event);
}

/* Of a member that was found, nobody knows how many threads it has: the end of its first one stands
 * for its own. */
static void on_exit_of_thread(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    const struct member *member = registry_find(feed->options.registry, event->pid);
    if (!member)
        return;

    bool had_ended = member->has_ended;
    registry_exit(feed->options.registry, event->pid, event->wait_status);
    bool has_just_ended = member->has_ended && !had_ended;
    if (member->was_found ? event->tid == event->pid : has_just_ended)
        tell(feed, member, event);
}

static void on_exec(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    const struct member *member = registry_find(feed->options.registry, event->pid);

    if (member)
        tell(feed, member, event);
    else if (feed->options.on_other_exec)
        feed->options.on_other_exec(feed->options.context, event->pid);
}

static void tell_event(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    switch (event->kind) {
    case LIFECYCLE_FORK: on_fork(feed, event); break;
    case LIFECYCLE_THREAD: registry_thread(feed->options.registry, event->pid); break;
    case LIFECYCLE_EXEC: on_exec(feed, event); break;
    case LIFECYCLE_EXIT: on_exit_of_thread(feed, event); break;
    }
}

/* Whether it is about a member, or makes one. */
static bool concerns_member(const struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    const struct registry *registry = feed->options.registry;

    return registry_find(registry, event->pid) ||
           (event->kind == LIFECYCLE_FORK && registry_find(registry, event->ppid));
}

static void on_event(void *context, const struct lifecycle_event *event)
{
    struct lifecycle_feed *feed = context;

    tell_event(feed, event);
    if (!concerns_member(feed, event))
        feed->strangers[feed->stranger_count++ % STRANGERS_MAX] = *event;
}

/* Where its story begins: at the last fork of that pid. One that is older is not looked for. */
static size_t find_fork(const struct lifecycle_feed *feed, pid_t pid)
{
    size_t kept = MIN(feed->stranger_count, (size_t)STRANGERS_MAX);
    size_t first = feed->stranger_count - kept;

    for (size_t i = feed->stranger_count; i-- > first;) {
        const struct lifecycle_event *event = &feed->strangers[i % STRANGERS_MAX];
        if (event->kind == LIFECYCLE_FORK && event->pid == pid)
            return i;
    }
    return feed->stranger_count;
}

bool lifecycle_feed_saw_fork(const struct lifecycle_feed *feed, pid_t parent, pid_t pid)
{
    size_t i = find_fork(feed, pid);

    return i < feed->stranger_count && feed->strangers[i % STRANGERS_MAX].ppid == parent;
}

bool lifecycle_feed_replay(struct lifecycle_feed *feed, pid_t pid)
{
    uint64_t now_ns = clock_mono_ns();
    bool has_fork = false;

    for (size_t i = find_fork(feed, pid); i < feed->stranger_count; i++) {
        struct lifecycle_event *event = &feed->strangers[i % STRANGERS_MAX];
        if (!event->pid || now_ns - event->mono_ns > STRANGERS_MAX_NS ||
            !concerns_member(feed, event))
            continue;
        has_fork |= event->kind == LIFECYCLE_FORK && event->pid == pid;
        tell_event(feed, event);
        event->pid = 0;
    }
    return has_fork;
}

void lifecycle_feed_drain(struct lifecycle_feed *feed)
{
    feed->mono_to_real_ns = clock_real_ns() - clock_mono_ns();
    if (connector_drain(feed->connector, on_event, feed) != 0)
        feed->has_lost = true;
}

static void on_nap_over(uv_timer_t *timer)
{
    struct lifecycle_feed *feed = timer->data;

    lifecycle_feed_drain(feed);
    if (fd_watch_resume(feed->watch) < 0)
        feed->has_lost = true;
}

static void on_readable(void *context, int fd _unused_)
{
    struct lifecycle_feed *feed = context;

    fd_watch_pause(feed->watch);
    uv_timer_start(&feed->nap, on_nap_over, feed->nap_msec, 0);
}

int lifecycle_feed_start(uv_loop_t *loop, struct connector *connector,
                         const struct lifecycle_feed_options *options, struct lifecycle_feed **ret)
{
    struct lifecycle_feed *feed = calloc(1, sizeof(*feed));
    if (!feed)
        return -ENOMEM;

    feed->options = *options;
    feed->own_pid = getpid();
    feed->nap_msec = MIN(connector_capacity(connector) / EVENTS_PER_MSEC, (size_t)NAP_MAX_MSEC);
    int r = fd_watch_start(loop, connector_fd(connector), false, on_readable, feed, &feed->watch);
    if (r < 0) {
        free(feed);
        return r;
    }
    uv_timer_init(loop, &feed->nap);
    feed->nap.data = feed;
    feed->connector = connector;
    *ret = feed;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct lifecycle_feed *feed = handle->data;

    connector_close(feed->connector);
    free(feed);
}

void lifecycle_feed_close(struct lifecycle_feed *feed)
{
    if (!feed)
        return;
    fd_watch_close(feed->watch);
    uv_close((uv_handle_t *)&feed->nap, on_closed);
}

bool lifecycle_feed_take_loss(struct lifecycle_feed *feed)
{
    bool has_lost = feed->has_lost;
    feed->has_lost = false;
    return has_lost;
}
