/* The way of the data:
 *
 *     probe (procfs, system)       probe (connector)
 *            | raw readings                | forks, exits
 *            v                             v
 *     sample (rates, ledger) <------- jobs (whose is it)
 *            | a finished snapshot         | events of the processes of runs
 *            v                             v
 *     engine_collect() -----> tick box: on_tick -----> store-writer (its own thread) -----> store
 */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "engine/command-book.h"
#include "engine/lifecycle-feed.h"
#include "engine/sent-signals.h"
#include "loop/ticker.h"

struct engine {
    struct engine_options options;
    struct collector *collector;
    struct lifecycle_feed *feed;
    struct ticker *ticker;
    struct VEC(pid_t) pids;
    struct moment last;
    struct tick_box *box; /* what belongs to the next tick; NULL: nothing yet */
    struct command_book book;
    struct sent_signals sent;
    int64_t snapshot_id;
    uint64_t lost_events; /* that there was not even a box for */
    bool skip_next_tick;
    bool has_lost_events;
    struct engine_counts counts;
};

/* ---- what belongs to the next tick ---- */

static void hand_over(struct engine *engine, struct snapshot *snapshot)
{
    struct tick_box *box = TAKE_PTR(engine->box);

    box->tick.snapshot = snapshot;
    command_book_name(&engine->book, box);
    if (engine->options.on_tick)
        engine->options.on_tick(engine->options.context, box);
    else
        tick_box_free(box);
}

static struct tick_box *get_box(struct engine *engine)
{
    if (!engine->box)
        engine->box = tick_box_new();
    return engine->box;
}

/* The box for an event: NULL if none are wanted, or there is no memory. */
static struct tick_box *get_event_box(struct engine *engine)
{
    if (!engine->options.wants_events)
        return NULL;
    if (engine->box && tick_box_is_full(engine->box))
        hand_over(engine, NULL);
    struct tick_box *box = get_box(engine);
    if (!box)
        engine->lost_events++;
    return box;
}

static struct process_event *add_end_to_box(struct engine *engine, struct tick_box *box,
                                            const struct run *run, pid_t pid, int wait_status,
                                            double timestamp)
{
    struct process_event *end = tick_box_add_end(box, run, pid, wait_status, timestamp);

    if (end)
        sent_signals_name(&engine->sent, &box->arena, clock_mono_ns(), end);
    return end;
}

static void on_member(void *context, const struct member *member,
                      const struct lifecycle_event *event, double timestamp)
{
    struct tick_box *box = get_event_box(context);
    if (!box)
        return;

    switch (event->kind) {
    case LIFECYCLE_FORK:
        tick_box_add_spawn(box, member->run, event->pid, event->ppid, timestamp);
        break;
    case LIFECYCLE_EXEC:
        tick_box_add_event(box, member->run, EVENT_EXEC, event->pid, timestamp);
        break;
    case LIFECYCLE_EXIT:
        add_end_to_box(context, box, member->run, event->pid, event->wait_status, timestamp);
        break;
    case LIFECYCLE_THREAD: break;
    }
}

/* Without memory the gap is not noted, and the next one tells of it. */
static void add_gap(struct engine *engine, const struct gap *gap)
{
    if (get_box(engine))
        tick_box_add_gap(engine->box, gap);
}

static void add_event_gap(struct engine *engine, const struct moment *now, int64_t lost,
                          const char *reason)
{
    add_gap(engine, &(struct gap){.kind = GAP_EVENTS,
                                  .timestamp = ns_to_sec(now->real_ns),
                                  .seconds = ns_to_sec(now->mono_ns - engine->last.mono_ns),
                                  .lost = lost,
                                  .reason = reason});
}

/* ---- one collection ---- */

/* Whether a process that the scan meets is read, and how deeply. */
static enum probe_depth depth_of(void *context, pid_t pid, pid_t ppid, uint64_t start_ticks)
{
    struct engine *engine = context;
    struct member *member = NULL;

    if (pid == getpid())
        return PROBE_CORE;
    /* Without memory to note a member, it is asked for again at the next tick. */
    registry_place(engine->options.registry, pid, ppid, start_ticks, &member);
    if (member)
        return PROBE_EXTRAS;
    return engine->options.only_jobs ? PROBE_SKIP : PROBE_CORE;
}

/* Drains the events; whether they leave nothing to look for. */
static bool members_are_known(struct engine *engine)
{
    if (!engine->feed)
        return false;
    lifecycle_feed_drain(engine->feed);
    if (!lifecycle_feed_take_loss(engine->feed))
        return true;
    engine->counts.event_losses++;
    engine->has_lost_events = true;
    registry_distrust_events(engine->options.registry);
    return false;
}

/* sonde itself is read as well, because it tells what it costs. */
static int list_members(struct engine *engine)
{
    int r = VEC_RESERVE(&engine->pids, registry_count(engine->options.registry) + 1);
    if (r < 0)
        return r;
    engine->pids.count = registry_pids(engine->options.registry, engine->pids.items);
    engine->pids.items[engine->pids.count++] = getpid();
    return 0;
}

static int collect(struct engine *engine, struct snapshot **ret, struct moment *ret_moment)
{
    struct collect_request request = {
        .scope = engine->options.scope, .depth = depth_of, .context = engine};

    if (members_are_known(engine) && engine->options.only_jobs) {
        int r = list_members(engine);
        if (r < 0)
            return r;
        request.pids = engine->pids.items;
        request.pid_count = engine->pids.count;
    }
    return collector_take(engine->collector, &request, ret, ret_moment);
}

/* What is missing since the last snapshot, or since a run began, if there was none yet. */
static void add_gaps(struct engine *engine, const struct moment *now, uint64_t losses_before)
{
    if (engine->last.mono_ns) {
        struct gap gap = gap_between(&engine->last, now, engine->options.interval_ns);
        if (gap.kind != GAP_NONE)
            add_gap(engine, &gap);
        if (engine->options.wants_events && engine->counts.event_losses > losses_before)
            add_event_gap(engine, now, INT_UNKNOWN, "the kernel's queue of events overflowed");
    }
    uint64_t lost = engine->lost_events + (engine->box ? engine->box->lost_events : 0);
    if (lost)
        add_event_gap(engine, now, (int64_t)lost, "there was no memory for them");
    engine->lost_events = 0;
    engine->last = *now;
}

int engine_collect(struct engine *engine)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
    uint64_t losses_before = engine->counts.event_losses;
    struct moment now;

    int r = collect(engine, &snapshot, &now);
    if (r == 0 && !get_box(engine))
        r = -ENOMEM;
    if (r < 0) {
        engine->counts.failed++;
        engine->skip_next_tick = true;
        return r;
    }
    engine->counts.collected++;
    add_gaps(engine, &now, losses_before);
    engine->snapshot_id =
        snapshot_id_next(engine->snapshot_id, snapshot->timestamp, (unsigned)getpid());
    snapshot->id = engine->snapshot_id;
    hand_over(engine, TAKE_PTR(snapshot));
    return 0;
}

void engine_flush(struct engine *engine)
{
    if (engine->box)
        hand_over(engine, NULL);
}

/* ---- the loop ---- */

static void on_tick(void *context, uint64_t missed)
{
    struct engine *engine = context;

    engine->counts.missed_ticks += missed;
    if (engine->skip_next_tick) {
        engine->skip_next_tick = false;
        return;
    }
    engine_collect(engine); /* a failure is counted there */
}

/* Without the feed, births and deaths are looked for. */
static void start_feed(uv_loop_t *loop, struct engine *engine, bool is_wanted)
{
    struct engine_options *options = &engine->options;

    if (is_wanted && lifecycle_feed_start(loop, options->connector, options->registry, on_member,
                                          engine, &engine->feed) == 0)
        registry_trust_events(options->registry);
    else
        connector_close(options->connector);
}

static void add_own_spawn(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    const struct member *member = registry_find(options->registry, options->spawned_pid);
    struct tick_box *box = member ? get_event_box(engine) : NULL;

    if (box)
        tick_box_add_spawn(box, member->run, member->pid, getpid(),
                           ns_to_sec(options->spawned_at.real_ns));
}

int engine_start(uv_loop_t *loop, const struct engine_options *options, struct engine **ret)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    if (!engine) {
        connector_close(options->connector);
        return -ENOMEM;
    }

    engine->options = *options;
    engine->last = options->spawned_at;
    if (options->spawned_pid)
        add_own_spawn(engine);
    int r = collector_new(&(struct collector_options){.registry = options->registry},
                          &engine->collector);
    if (options->connector)
        start_feed(loop, engine, r == 0);
    if (r == 0)
        r = engine_collect(engine);
    if (r == 0)
        r = ticker_start(loop, options->interval_ns, on_tick, engine, &engine->ticker);
    if (r < 0) {
        engine_close(engine);
        return r;
    }
    *ret = engine;
    return 0;
}

void engine_close(struct engine *engine)
{
    if (!engine)
        return;
    ticker_close(engine->ticker);
    lifecycle_feed_close(engine->feed);
    collector_free(engine->collector);
    VEC_DONE(&engine->pids);
    tick_box_free(engine->box);
    command_book_done(&engine->book);
    free(engine);
}

/* The end of a process that was reaped, if it belongs to the next tick. The kernel tells of an end
 * before a process can be reaped, unless events were lost: then it is told of here. */
static struct process_event *find_or_add_end(struct engine *engine, struct run *run, pid_t pid,
                                             int wait_status)
{
    const struct member *member = registry_find(engine->options.registry, pid);
    bool is_told = member && member->has_ended && !member->was_found;

    if (is_told && run->processes > 1) /* not worth the search */
        return NULL;
    struct process_event *end = engine->box ? tick_box_find_end(engine->box, pid) : NULL;
    struct tick_box *box = end || is_told ? NULL : get_event_box(engine);

    if (!box)
        return end;
    return add_end_to_box(engine, box, run, pid, wait_status, ns_to_sec(clock_real_ns()));
}

/* What the kernel accounts to a process that was reaped includes what that had reaped: it is its
 * own where it is the only one there ever was. */
static void add_end(struct engine *engine, struct run *run, pid_t pid, int wait_status,
                    const struct rusage *usage)
{
    struct process_event *end = find_or_add_end(engine, run, pid, wait_status);

    if (!end || run->processes != 1 || !engine_saw_every_process(engine))
        return;
    end->cpu_seconds = ns_to_sec(cpu_time_of(usage).total_ns);
    end->peak_rss_mb = (double)usage->ru_maxrss * 1024 / BYTES_PER_MB;
}

void engine_reaped(struct engine *engine, pid_t pid, int wait_status, const struct rusage *usage)
{
    struct registry *registry = engine->options.registry;

    /* Events that tell of its fork may still wait to be drained. */
    if (engine->feed)
        lifecycle_feed_drain(engine->feed);
    struct run *run = registry_run_of_reaped(registry, pid);
    if (run && engine->options.wants_events)
        add_end(engine, run, pid, wait_status, usage);
    if (run && sampler_reaped(collector_sampler(engine->collector), run, pid, usage) < 0)
        engine->counts.failed++;
    registry_remove(registry, pid);
}

void engine_signalled(struct engine *engine, pid_t pid, const struct process_event *sent)
{
    const struct member *member = registry_find(engine->options.registry, pid);
    struct tick_box *box = member ? get_event_box(engine) : NULL;

    if (!box)
        return;
    tick_box_add_signal(box, member->run, pid, sent, ns_to_sec(clock_real_ns()));
    sent_signals_note(&engine->sent, pid, sent, clock_mono_ns());
}

const struct run_usage *engine_usage(const struct engine *engine, const struct run *run)
{
    return sampler_usage(collector_sampler(engine->collector), run);
}

const struct engine_counts *engine_counts(const struct engine *engine)
{
    return &engine->counts;
}

bool engine_saw_every_process(const struct engine *engine)
{
    return engine->feed && !engine->has_lost_events;
}
