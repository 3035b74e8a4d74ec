/* The way of the data:
 *
 *     probe (procfs, system)       probe (connector)
 *            | raw readings                | forks, exits
 *            v                             v
 *     sample (rates, ledger) <------- jobs (whose is it)
 *            | a finished snapshot
 *            v
 *     engine_collect() -----> on_snapshot, on_gap
 */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "engine/lifecycle-feed.h"
#include "loop/ticker.h"

struct engine {
    struct engine_options options;
    struct collector *collector;
    struct lifecycle_feed *feed;
    struct ticker *ticker;
    struct VEC(pid_t) pids;
    struct moment last;
    bool skip_next_tick;
    bool has_lost_events;
    struct engine_counts counts;
};

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

static void report_gap(struct engine *engine, const struct moment *now)
{
    if (engine->last.mono_ns && engine->options.on_gap) {
        struct gap gap = gap_between(&engine->last, now, engine->options.interval_ns);
        if (gap.kind != GAP_NONE)
            engine->options.on_gap(engine->options.context, &gap);
    }
    engine->last = *now;
}

int engine_collect(struct engine *engine)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
    struct moment now;

    int r = collect(engine, &snapshot, &now);
    if (r < 0) {
        engine->counts.failed++;
        engine->skip_next_tick = true;
        return r;
    }
    engine->counts.collected++;
    report_gap(engine, &now);
    if (engine->options.on_snapshot)
        engine->options.on_snapshot(engine->options.context, TAKE_PTR(snapshot));
    return 0;
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

    if (is_wanted &&
        lifecycle_feed_start(loop, options->connector, options->registry, &engine->feed) == 0)
        registry_trust_events(options->registry);
    else
        connector_close(options->connector);
}

int engine_start(uv_loop_t *loop, const struct engine_options *options, struct engine **ret)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    if (!engine) {
        connector_close(options->connector);
        return -ENOMEM;
    }

    engine->options = *options;
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
    free(engine);
}

void engine_reaped(struct engine *engine, pid_t pid, const struct rusage *usage)
{
    struct registry *registry = engine->options.registry;

    /* Events that tell of its fork may still wait to be drained. */
    if (engine->feed)
        lifecycle_feed_drain(engine->feed);
    struct run *run = registry_run_of_reaped(registry, pid);
    if (run && sampler_reaped(collector_sampler(engine->collector), run, pid, usage) < 0)
        engine->counts.failed++;
    registry_remove(registry, pid);
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
