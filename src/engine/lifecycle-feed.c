#include "engine/lifecycle-feed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "loop/fd-watch.h"
#include "probe/process-lookup.h"

/* The delay before a batch of events is read must not overflow the queue: children of vfork that
 * end at once make 50 events in a millisecond, and half of the queue is left for a late wake-up.
 * The queue of an ordinary user holds some 550 events unless the machine's limit was raised: 5 ms.
 */
#define EVENTS_PER_MSEC 100
#define BATCH_MAX_MSEC  5
/* The same for the BPF ring, which holds the events of 4,000 processes. A fork belongs to its run
 * even if it is read late. */
#define KERNEL_BATCH_MSEC 50

/* How often events of the connector are read at once: one more time for each QUICK_EVERY_NS without
 * an event. A compiler makes six wake-ups in 10 ms. A storm leaves no such pauses, so it is read in
 * batches after the first QUICK_MAX wake-ups, which take 2 ms of CPU time. */
#define QUICK_MAX      100
#define QUICK_EVERY_NS (2 * NS_PER_MSEC)

/* How long the connector is still read after the switch to the BPF programs. Forks and exits that
 * were in progress are usually complete after FORMER_NS. A process that does not get the CPU, or
 * has many gigabytes to free, may take longer. No pid is reused so soon. */
#define FORMER_NS     NS_PER_SEC
#define FORMER_MAX_NS (60 * NS_PER_SEC)

/* Events of other processes (those without a run) are remembered in a ring, for this time: a
 * process may be registered as a job a little after its fork, and others start and end in between.
 */
#define OTHERS_MAX 16384
#define OTHERS_NS  (2 * NS_PER_SEC)

/* An event of a process without a run. The ring owns the texts. */
struct other_event {
    struct lifecycle_event event; /* pid 0: reported since */
    uint64_t noted_ns;            /* monotonic: when it was read */
    char *text;                   /* its command, or the sender of a signal */
    char *details;                /* of an OOM kill */
    size_t next_held;             /* of a held OOM kill: the index of the next one */
};

struct lifecycle_feed {
    struct other_event others[OTHERS_MAX]; /* a ring */
    size_t other_count;                    /* in all */
    size_t held_kills; /* OOM kills among them, linked in their order, whose process may still
                          become a member of a run */
    size_t first_held, last_held;
    uint64_t lost_until_ns; /* monotonic: later events are complete */
    uv_loop_t *loop;
    struct lifecycle_source source;
    struct lifecycle_feed_options options;
    pid_t own_pid;
    uint64_t mono_to_real_ns; /* offset of the clocks at the last drain */
    struct fd_watch *watch;
    uv_timer_t batch_timer;
    uint64_t batch_msec;
    unsigned quick_left;      /* how many more times events are read at once */
    uint64_t drained_ns;      /* monotonic: when events were read last */
    struct connector *former; /* for ends that the BPF programs missed; or NULL */
    uint64_t kernel_since_ns; /* the connector reported everything before; 0: never */
    uint64_t both_until_ns;   /* it may have reported events before this */
    bool has_lost;
};

static double wall_clock_of(const struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    return ns_to_sec(event->mono_ns + feed->mono_to_real_ns);
}

static void report_member(struct lifecycle_feed *feed, struct member *member,
                          const struct lifecycle_event *event)
{
    if (member && feed->options.on_member)
        feed->options.on_member(feed->options.context, member, event, wall_clock_of(feed, event));
}

static void report_other(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    if (feed->options.on_other)
        feed->options.on_other(feed->options.context, event, wall_clock_of(feed, event));
}

static void account_for(struct lifecycle_feed *feed, struct member *member,
                        const struct lifecycle_event *event)
{
    if (member && feed->source.kernel && feed->options.on_account)
        feed->options.on_account(feed->options.context, member, event);
}

static void on_fork(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    struct registry *registry = feed->options.registry;
    struct member *known = registry_find(registry, event->pid);
    /* A process that sonde started is a member before the kernel reports its fork. */
    bool is_own = known && !known->has_ended && !known->was_found && event->ppid == feed->own_pid;
    /* The connector reports a fork before the BPF programs do; if the forking process loses the CPU
     * in between, long before. */
    if (event->mono_ns < feed->kernel_since_ns || (known && event->mono_ns < feed->both_until_ns)) {
        account_for(feed, known, event);
        return;
    }
    /* Without memory to record it, the fork is lost. */
    if (registry_fork(registry, event->ppid, event->pid) < 0) {
        feed->has_lost = true;
        return;
    }
    struct member *member = registry_find(registry, event->pid);
    if (member && feed->source.kernel)
        member->tag = event->tag;
    account_for(feed, member, event);
    if (!is_own)
        report_member(feed, member, event);
}

/* The status of a process is that of its first thread, unless another thread ended it later. A
 * thread that just returns has status 0; its end may be reported after that of the process. */
static int note_status(struct member *member, const struct lifecycle_event *event)
{
    bool is_first_thread = event->tid == event->pid;

    if (is_first_thread || !member->first_thread_has_ended || event->wait_status)
        member->wait_status = event->wait_status;
    member->first_thread_has_ended |= is_first_thread;
    return member->wait_status;
}

/* The number of threads of a member that was found by a scan is unknown: the end of its first
 * thread stands for its own. */
static void on_exit_of_thread(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    struct member *member = registry_find(feed->options.registry, event->pid);
    if (!member) {
        if (event->tid == event->pid)
            registry_exit(feed->options.registry, event->pid, event->wait_status);
        return;
    }
    if (feed->source.kernel && event->tag)
        member->threads = 1; /* this event is of the process, not of a thread */
    bool had_ended = member->has_ended;
    struct lifecycle_event end = *event;
    end.wait_status = note_status(member, event);
    registry_exit(feed->options.registry, event->pid, end.wait_status);
    bool has_just_ended = member->has_ended && !had_ended;
    if (!(member->was_found ? event->tid == event->pid : has_just_ended))
        return;
    member->run->last_end_ns = MAX(member->run->last_end_ns, event->mono_ns);
    run_node_count_end(member->node, end.wait_status);
    report_member(feed, member, &end);
}

static void on_exec(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    struct member *member = registry_find(feed->options.registry, event->pid);

    account_for(feed, member, event);
    /* The connector reports an exec after the BPF programs do: if the process loses the CPU in
     * between, after the switch, when it is not read any more for execs. */
    if (member ? event->mono_ns < member->exec_ns : event->mono_ns < feed->kernel_since_ns)
        return; /* the connector reported it */
    if (member && feed->source.kernel)
        member->tag = event->tag; /* that of another thread, if that called exec */
    else if (member)
        member->exec_ns = event->mono_ns;
    if (member)
        report_member(feed, member, event);
    else
        report_other(feed, event);
}

/* A signal that a `sonde run` passes on is reported by it, with the original sender. */
static void on_signal(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    if (event->sender_pid != feed->own_pid &&
        !registry_is_foster(feed->options.registry, event->sender_pid))
        report_member(feed, registry_find(feed->options.registry, event->pid), event);
}

/* Returns the member of the event; NULL if its pid belongs to another process now. */
static struct member *find_same(const struct lifecycle_feed *feed,
                                const struct lifecycle_event *event)
{
    struct member *member = registry_find(feed->options.registry, event->pid);
    bool is_other = member && member->start_ticks && event->start_ticks &&
                    member->start_ticks != event->start_ticks;

    return is_other ? NULL : member;
}

/* The OOM kill of a process without a run is held in the ring: its job may still be registered. */
static void on_oom(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    struct member *member = find_same(feed, event);

    if (member)
        report_member(feed, member, event);
    else if (!feed->options.remembers_others)
        report_other(feed, event);
}

static void handle_event(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    switch (event->kind) {
    case LIFECYCLE_FORK: on_fork(feed, event); break;
    case LIFECYCLE_THREAD: registry_thread(feed->options.registry, event->pid); break;
    case LIFECYCLE_EXEC: on_exec(feed, event); break;
    case LIFECYCLE_EXIT:
        account_for(feed, registry_find(feed->options.registry, event->pid), event);
        on_exit_of_thread(feed, event);
        break;
    case LIFECYCLE_SIGNAL: on_signal(feed, event); break;
    case LIFECYCLE_OOM: on_oom(feed, event); break;
    }
}

/* Whether the event is about a member, or creates one. */
static bool concerns_member(const struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    const struct registry *registry = feed->options.registry;

    if (event->kind == LIFECYCLE_OOM)
        return find_same(feed, event);
    return registry_find(registry, event->pid) ||
           (event->kind == LIFECYCLE_FORK && registry_find(registry, event->ppid));
}

/* ---- held OOM kills ---- */

static void hold_kill(struct lifecycle_feed *feed, size_t place)
{
    if (feed->held_kills++)
        feed->others[feed->last_held].next_held = place;
    else
        feed->first_held = place;
    feed->last_held = place;
}

/* Reports the first held kill: for its run if the process has become a member, otherwise without a
 * run. */
static void release_kill(struct lifecycle_feed *feed)
{
    struct other_event *kill = &feed->others[feed->first_held];

    feed->held_kills--;
    feed->first_held = kill->next_held;
    if (!kill->event.pid)
        return;
    struct member *member = find_same(feed, &kill->event);
    if (member)
        report_member(feed, member, &kill->event);
    else
        report_other(feed, &kill->event);
    kill->event.pid = 0;
}

static void release_kills(struct lifecycle_feed *feed, uint64_t age_ns)
{
    uint64_t now_ns = clock_mono_ns();

    while (feed->held_kills && now_ns - feed->others[feed->first_held].noted_ns >= age_ns)
        release_kill(feed);
}

/* ---- processes without a run ---- */

/* Remembers an event of a process without a run. If memory runs out, a command stays unknown, a
 * signal is dropped because its sender could not be named, and an OOM kill is reported at once. */
static void remember_other(struct lifecycle_feed *feed, const struct lifecycle_event *event)
{
    bool is_signal = event->kind == LIFECYCLE_SIGNAL, is_oom = event->kind == LIFECYCLE_OOM;
    const char *text = is_signal                                 ? event->sender_name
                       : is_oom || event->kind == LIFECYCLE_EXEC ? event->command
                                                                 : NULL;
    const char *details = is_oom ? event->details : NULL;
    struct other_event noted = {.event = *event,
                                .noted_ns = clock_mono_ns(),
                                .text = text ? strdup(text) : NULL,
                                .details = details ? strdup(details) : NULL};
    bool is_out_of_memory = (text && !noted.text) || (details && !noted.details);
    if (is_out_of_memory && event->kind != LIFECYCLE_EXEC) {
        if (is_oom)
            report_other(feed, event);
        free(noted.text);
        free(noted.details);
        return;
    }
    noted.event.command = is_signal ? NULL : noted.text;
    noted.event.sender_name = is_signal ? noted.text : NULL;
    noted.event.details = noted.details;
    noted.event.calls = NULL; /* the caller owns them */

    size_t place = feed->other_count++ % OTHERS_MAX;
    if (feed->held_kills && feed->first_held == place)
        release_kill(feed);
    free(feed->others[place].text);
    free(feed->others[place].details);
    feed->others[place] = noted;
    if (is_oom)
        hold_kill(feed, place);
}

/* Handles an event of the connector after the switch: only ends of members that were covered too
 * late, or while they ended. The BPF programs report all others. It has no usage to account for:
 * that of such a member is in the reading that covers it, or in its parent. */
static void on_former_event(void *context, const struct lifecycle_event *event)
{
    struct lifecycle_feed *feed = context;
    const struct member *member = registry_find(feed->options.registry, event->pid);

    if (event->kind == LIFECYCLE_EXIT && member && (!member->is_covered || member->is_counted))
        on_exit_of_thread(feed, event);
}

static void on_event(void *context, const struct lifecycle_event *event)
{
    struct lifecycle_feed *feed = context;

    handle_event(feed, event);
    if (feed->options.remembers_others && !concerns_member(feed, event))
        remember_other(feed, event);
}

/* Whether only the connector may report the end of some member: one that had ended when it was
 * covered, or one that is gone and was not covered. The BPF programs report all others. */
static bool awaits_former(const struct lifecycle_feed *feed)
{
    const struct member *member = NULL;

    while ((member = registry_next(feed->options.registry, member)))
        if (!member->has_ended &&
            (member->is_counted || (!member->is_covered && process_lookup_is_gone(member->pid) &&
                                    !kernel_probe_awaits_end(feed->source.kernel, member->pid))))
            return true;
    return false;
}

static void drain_former(struct lifecycle_feed *feed)
{
    bool has_lost = connector_drain(feed->former, on_former_event, feed) != 0;
    uint64_t age_ns = clock_mono_ns() - feed->kernel_since_ns;

    if (!has_lost && age_ns < feed->options.former_ns)
        return;
    bool is_awaited = awaits_former(feed);
    if (has_lost && is_awaited)
        feed->has_lost = true;
    if (age_ns < feed->options.former_ns || (is_awaited && age_ns < FORMER_MAX_NS))
        return;
    connector_close(feed->former);
    feed->former = NULL;
}

/* Finds the last fork of the pid in the ring; other_count if there is none. */
static size_t find_fork(const struct lifecycle_feed *feed, pid_t pid)
{
    size_t kept = MIN(feed->other_count, (size_t)OTHERS_MAX);
    size_t first = feed->other_count - kept;

    for (size_t i = feed->other_count; i-- > first;) {
        const struct lifecycle_event *event = &feed->others[i % OTHERS_MAX].event;
        if (event->kind == LIFECYCLE_FORK && event->pid == pid)
            return i;
    }
    return feed->other_count;
}

bool lifecycle_feed_saw_fork(const struct lifecycle_feed *feed, pid_t parent, pid_t pid)
{
    size_t i = find_fork(feed, pid);

    return i < feed->other_count && feed->others[i % OTHERS_MAX].event.ppid == parent;
}

bool lifecycle_feed_replay(struct lifecycle_feed *feed, pid_t pid, bool *ret_is_complete)
{
    uint64_t now_ns = clock_mono_ns();
    bool has_fork = false;

    *ret_is_complete = false;
    for (size_t i = find_fork(feed, pid); i < feed->other_count; i++) {
        struct other_event *other = &feed->others[i % OTHERS_MAX];
        struct lifecycle_event *event = &other->event;
        if (!event->pid || now_ns - other->noted_ns > feed->options.others_ns ||
            !concerns_member(feed, event))
            continue;
        if (event->kind == LIFECYCLE_FORK && event->pid == pid) {
            has_fork = true;
            *ret_is_complete = event->mono_ns > feed->lost_until_ns;
        }
        handle_event(feed, event);
        event->pid = 0;
    }
    return has_fork;
}

static void drain_source(struct lifecycle_feed *feed)
{
    const struct lifecycle_source *source = &feed->source;

    feed->drained_ns = clock_mono_ns();
    feed->mono_to_real_ns = clock_real_ns() - feed->drained_ns;
    release_kills(feed, feed->options.others_ns);
    int r = source->kernel ? kernel_probe_drain(source->kernel, on_event, feed)
                           : connector_drain(source->connector, on_event, feed);
    if (r != 0) {
        feed->has_lost = true;
        feed->lost_until_ns = clock_mono_ns();
    }
    if (feed->former)
        drain_former(feed);
}

void lifecycle_feed_settle(struct lifecycle_feed *feed, pid_t pid, uint64_t patience_ns)
{
    if (feed->source.kernel)
        kernel_probe_settle(feed->source.kernel, pid, patience_ns, on_event, feed);
}

static void on_batch_over(uv_timer_t *timer);

static void schedule_drain(struct lifecycle_feed *feed)
{
    if (!uv_is_active((uv_handle_t *)&feed->batch_timer))
        uv_timer_start(&feed->batch_timer, on_batch_over, feed->batch_msec, 0);
}

static void on_batch_over(uv_timer_t *timer)
{
    struct lifecycle_feed *feed = timer->data;

    drain_source(feed);
    bool is_awake = feed->source.kernel && !kernel_probe_sleep(feed->source.kernel);
    if (is_awake || feed->held_kills)
        schedule_drain(feed);
    else if (fd_watch_resume(feed->watch) < 0)
        feed->has_lost = true;
}

void lifecycle_feed_drain(struct lifecycle_feed *feed)
{
    const struct kernel_probe *kernel = feed->source.kernel;

    drain_source(feed);
    /* The event that should wake the loop may have been drained here: then the fd is not readable,
     * and no later event makes it so. */
    if (feed->held_kills || (kernel && !kernel_probe_sleeps(kernel)))
        schedule_drain(feed);
}

/* Whether the events should be read at once. Their number is limited. */
static bool spend_quick_read(struct lifecycle_feed *feed)
{
    uint64_t pauses = (clock_mono_ns() - feed->drained_ns) / QUICK_EVERY_NS;

    if (feed->source.kernel)
        return false;
    feed->quick_left = (unsigned)MIN(feed->quick_left + pauses, (uint64_t)QUICK_MAX);
    return feed->quick_left && feed->quick_left--;
}

static void on_readable(void *context, int fd _unused_)
{
    struct lifecycle_feed *feed = context;

    if (spend_quick_read(feed)) {
        drain_source(feed);
        return;
    }
    fd_watch_pause(feed->watch);
    schedule_drain(feed);
}

/* Watches the source and sets the delay of its batches. Returns 0 or a negative errno. */
static int watch_source(struct lifecycle_feed *feed, const struct lifecycle_source *source)
{
    struct fd_watch *fd_watch;
    int fd = source->kernel ? kernel_probe_fd(source->kernel) : connector_fd(source->connector);

    int r = fd_watch_start(feed->loop, fd, false, on_readable, feed, &fd_watch);
    if (r < 0)
        return r;
    fd_watch_close(feed->watch);
    feed->watch = fd_watch;
    feed->source = *source;
    feed->batch_msec = source->kernel ? KERNEL_BATCH_MSEC
                                      : MIN(connector_capacity(source->connector) / EVENTS_PER_MSEC,
                                            (size_t)BATCH_MAX_MSEC);
    return 0;
}

int lifecycle_feed_start(uv_loop_t *loop, const struct lifecycle_source *source,
                         const struct lifecycle_feed_options *options, struct lifecycle_feed **ret)
{
    struct lifecycle_feed *feed = calloc(1, sizeof(*feed));
    if (!feed)
        return -ENOMEM;

    feed->options = *options;
    if (!feed->options.former_ns)
        feed->options.former_ns = FORMER_NS;
    if (!feed->options.others_ns)
        feed->options.others_ns = OTHERS_NS;
    feed->own_pid = getpid();
    feed->loop = loop;
    feed->quick_left = QUICK_MAX;
    int r = watch_source(feed, source);
    if (r < 0) {
        free(feed);
        return r;
    }
    uv_timer_init(loop, &feed->batch_timer);
    feed->batch_timer.data = feed;
    if (source->kernel)
        schedule_drain(feed); /* afterwards the fd wakes the loop */
    *ret = feed;
    return 0;
}

int lifecycle_feed_use_kernel(struct lifecycle_feed *feed, struct kernel_probe *kernel)
{
    struct connector *connector = feed->source.connector;

    uint64_t now_ns = clock_mono_ns();
    lifecycle_feed_drain(feed);
    int r = watch_source(feed, &(struct lifecycle_source){.kernel = kernel});
    if (r < 0)
        return r;
    feed->kernel_since_ns = now_ns;
    feed->both_until_ns = clock_mono_ns() + feed->options.former_ns;
    feed->former = connector;
    schedule_drain(feed);
    return 0;
}

void lifecycle_feed_report_held_kills(struct lifecycle_feed *feed)
{
    release_kills(feed, 0);
    feed->options.remembers_others = false;
}

static void on_closed(uv_handle_t *handle)
{
    struct lifecycle_feed *feed = handle->data;

    for (size_t i = 0; i < OTHERS_MAX; i++) {
        free(feed->others[i].text);
        free(feed->others[i].details);
    }
    connector_close(feed->source.connector);
    connector_close(feed->former);
    free(feed);
}

void lifecycle_feed_close(struct lifecycle_feed *feed)
{
    if (!feed)
        return;
    fd_watch_close(feed->watch);
    uv_close((uv_handle_t *)&feed->batch_timer, on_closed);
}

bool lifecycle_feed_has_lost(const struct lifecycle_feed *feed)
{
    return feed->has_lost;
}

bool lifecycle_feed_take_loss(struct lifecycle_feed *feed)
{
    return TAKE(feed->has_lost, false);
}
