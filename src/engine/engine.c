/* One collection, and the start and end of the engine. docs/ARCHITECTURE.md has the diagram of the
 * data flow: engine_collect() takes a snapshot from sample, detect finds anomalies in it, and
 * tick-builder makes a tick of both and of the events since the last one, for on_tick. */
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "config/paths.h"
#include "engine/engine-parts.h"
#include "loop/ticker.h"
#include "sample/scope.h"

/* ---- one collection ---- */

/* Registers a process without a run in the run that a rule finds for it. Returns whether a rule
 * does. */
static bool apply_rules(struct engine *engine, pid_t pid, uint64_t start_ticks)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rule_match found;

    if (rule_runs_find(&engine->rules, pid, start_ticks, &arena, &found) <= 0)
        return false;
    engine_register(engine, found.run, INT_UNKNOWN, (struct process_id){pid, start_ticks},
                    REPLAY_FROM_NOW);
    if (found.is_new && engine->options.on_run_found)
        engine->options.on_run_found(engine->options.context, found.run, &found.facts);
    return true;
}

/* Decides for each process of a scan whether it is read, and how deeply. */
static enum probe_depth depth_of(void *context, const struct process_reading *begun)
{
    struct engine *engine = context;
    struct registry *registry = engine->options.registry;
    struct member *member = NULL;

    if (begun->pid == engine->own_pid)
        return PROBE_CORE;
    /* If memory runs out, the next tick tries again. */
    registry_place(registry, begun->pid, begun->ppid, begun->start_ticks, &member);
    if (!member && begun->tag && engine->is_resyncing)
        registry_place_tagged(registry, begun->tag, begun->pid, begun->ppid, begun->start_ticks,
                              &member);
    if (!member && engine->settings.rules && apply_rules(engine, begun->pid, begun->start_ticks))
        registry_place(registry, begun->pid, begun->ppid, begun->start_ticks, &member);
    if (member)
        return PROBE_EXTRAS;
    return engine->options.only_jobs ? PROBE_SKIP : PROBE_CORE;
}

/* Reads the queued events. Returns whether the registry has all members, so that no scan of /proc
 * is needed. */
static bool members_are_known(struct engine *engine)
{
    if (!engine->feed)
        return false;
    lifecycle_feed_drain(engine->feed);
    engine->is_resyncing = lifecycle_feed_take_loss(engine->feed);
    if (!engine->is_resyncing)
        return true;
    engine->counts.event_losses++;
    engine->has_lost_events = true;
    registry_distrust_events(engine->options.registry);
    if (kernel_account_has_events(&engine->kernel))
        sampler_mark_incomplete(collector_sampler(engine->collector));
    engine->syscalls.lost_batches++;
    tick_builder_mark_incomplete(&engine->builder);
    return false;
}

static int collect(struct engine *engine, struct snapshot **ret, struct moment *ret_moment)
{
    struct collect_request request = {.depth = depth_of, .context = engine};

    bool are_known = members_are_known(engine);
    if (are_known && !TAKE(engine->needs_scan, false) && engine->options.only_jobs) {
        if (VEC_RESERVE(&engine->pids, registry_count(engine->options.registry) + 1) < 0)
            return -ENOMEM;
        engine->pids.count = registry_pids(engine->options.registry, engine->pids.items);
        engine->pids.items[engine->pids.count++] = engine->own_pid; /* for sonde's own cost */
        request.pids = engine->pids.items;
        request.pid_count = engine->pids.count;
    }
    engine_cover_members(engine);
    kernel_account_await_ends(&engine->kernel);
    rule_runs_begin(&engine->rules);
    engine->is_reading = true;
    int r = collector_take(engine->collector, &request, ret, ret_moment);
    engine->is_reading = false;
    if (r < 0)
        return r;
    rule_runs_scanned(&engine->rules);
    if (syscall_account_fill(&engine->syscalls, ret_moment, engine->settings.interval_ns, *ret) < 0)
        engine->counts.failed_syscalls++;
    if (gpu_watch_fill(engine->gpus, ret_moment->mono_ns, engine->settings.interval_ns, *ret) < 0)
        engine->counts.failed_gpus++;
    if (tracing_fill(engine->tracing, *ret) < 0)
        engine->counts.failed_syscalls++;
    return 0;
}

static void add_event_gap(struct engine *engine, const struct moment *now, int64_t lost,
                          const char *reason)
{
    tick_builder_add_gap(&engine->builder,
                         &(struct gap){.kind = GAP_EVENTS,
                                       .timestamp = ns_to_sec(now->real_ns),
                                       .seconds = ns_to_sec(now->mono_ns - engine->last.mono_ns),
                                       .lost = lost,
                                       .reason = reason});
}

/* Adds gaps for data missing since the last snapshot, or since the start of the command. */
static void add_gaps(struct engine *engine, const struct moment *now, uint64_t losses_before)
{
    if (engine->last.mono_ns) {
        struct gap gap = gap_between(&engine->last, now, engine->settings.interval_ns);
        if (gap.kind != GAP_NONE)
            tick_builder_add_gap(&engine->builder, &gap);
        if (engine->options.wants_events && engine->counts.event_losses > losses_before)
            add_event_gap(engine, now, INT_UNKNOWN, "the kernel's queue of events overflowed");
    }
    uint64_t lost = tick_builder_take_lost(&engine->builder);
    if (lost)
        add_event_gap(engine, now, (int64_t)lost, "out of memory");
    if (engine->unreported_ends)
        add_event_gap(engine, now, (int64_t)TAKE(engine->unreported_ends, 0),
                      "the kernel did not report the ends of some processes");
    engine->last = *now;
}

/* ---- detection ---- */

static void find_pressure(struct engine *engine, struct snapshot *snapshot)
{
    struct pressure_limits limits;
    struct pressure_input input;

    if (!engine->settings.limits)
        return;
    engine->pressure = pressure_input_of(snapshot);
    engine->memory_total_mb = snapshot->system_memory_total_mb;
    engine_pressure(engine, INT_UNKNOWN, &limits, &input);
    snapshot->pressure_level = pressure_level(&limits, &input);
}

static void find_anomalies(struct engine *engine, const struct snapshot *snapshot,
                           const struct moment *now)
{
    struct tick_box *box = engine->builder.box;

    engine->has_new_kill = false;
    if (!engine->detector)
        return;
    unseen_events_add(&engine->unseen, &box->tick.events);
    const struct process_event_list events = unseen_events_list(&engine->unseen);
    const struct detect_input input = {
        .snapshot = snapshot, .mono_ns = now->mono_ns, .events = &events};
    if (detector_check(engine->detector, &input, &box->arena, &box->tick.anomalies) < 0)
        engine->counts.failed_detections++;
    unseen_events_clear(&engine->unseen);
}

static bool is_in_episode(void *context, const struct process_metric *process)
{
    const struct engine *engine = context;

    return engine->detector &&
           detector_is_in_episode(engine->detector, (pid_t)process->pid, process->start_ticks);
}

/* Counts the processes that keep each run from being over: zombies do not count; members that sonde
 * cannot read do. */
static void count_living(struct engine *engine, const struct snapshot *snapshot)
{
    struct registry *registry = engine->options.registry;
    struct member *member = NULL;
    struct run *run = NULL;

    while ((run = registry_next_run(registry, run)))
        run->living = 0;
    while ((member = registry_next(registry, member)))
        member->run->living += !member->has_ended;
    for (size_t i = 0; i < snapshot->processes.count; i++) {
        const struct process_metric *process = &snapshot->processes.items[i];
        member = process->state == 'Z' ? registry_find(registry, (pid_t)process->pid) : NULL;
        if (member && !member->has_ended)
            member->run->living--;
    }
}

/* Anomalies and pressure cover all processes; the scope is applied after them. Without memory for
 * the scope, all processes stay. */
static void finish(struct engine *engine, struct snapshot *snapshot, const struct moment *now)
{
    engine->snapshot_id =
        snapshot_id_next(engine->snapshot_id, snapshot->timestamp, (unsigned)getpid());
    snapshot->id = engine->snapshot_id;
    count_living(engine, snapshot);
    find_pressure(engine, snapshot);
    find_anomalies(engine, snapshot, now);
    scope_apply(engine->settings.scope, &snapshot->processes, is_in_episode, engine);
    if (engine->settings.only_job)
        scope_keep_job(engine->settings.only_job, snapshot);
}

int engine_collect(struct engine *engine)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
    uint64_t losses_before = engine->counts.event_losses;
    struct moment now;

    int r = collect(engine, &snapshot, &now);
    if (r == 0 && !tick_builder_box(&engine->builder))
        r = -ENOMEM;
    if ((r < 0) != engine->is_failing && engine->options.on_collection)
        engine->options.on_collection(engine->options.context, r);
    engine->is_failing = r < 0;
    if (r < 0) {
        engine->counts.failed++;
        engine->skip_next_tick = true;
        engine->pressure = pressure_input_of(NULL);
        return r;
    }
    engine->counts.collected++;
    engine_hand_over(engine);
    add_gaps(engine, &now, losses_before);
    finish(engine, snapshot, &now);
    uv_timer_stop(&engine->flush);
    tick_builder_finish(&engine->builder, TAKE_PTR(snapshot));
    engine_hand_over(engine);
    engine_follow_members(engine);
    if (engine->options.on_run_over)
        rule_runs_end(&engine->rules, now.mono_ns, engine->options.on_run_over,
                      engine->options.context);
    return 0;
}

void engine_flush(struct engine *engine)
{
    engine_drain(engine);
    uv_timer_stop(&engine->flush);
    tick_builder_finish(&engine->builder, NULL);
    engine_hand_over(engine);
}

/* ---- the loop ---- */

static void on_tick(void *context, uint64_t missed)
{
    struct engine *engine = context;

    engine->counts.missed_ticks += missed;
    if (!TAKE(engine->skip_next_tick, false))
        engine_collect(engine); /* counts its own failures */
}

static void add_own_spawn(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    const struct member *member = registry_find(options->registry, options->spawned_pid);

    if (!member)
        return;
    tick_builder_add_spawn(&engine->builder, member_owner(member), member->pid, getpid(),
                           ns_to_sec(options->spawned_at.real_ns));
    command_cache_expect(&engine->builder.commands, member->pid, options->spawned_path,
                         options->spawned_command);
}

int engine_configure(struct engine *engine, const struct engine_settings *settings)
{
    struct ticker *ticker = NULL;

    /* Everything that can fail comes first: after an error the caller frees the new words. */
    if (settings->anomaly && !engine->detector) {
        int r = detector_new(settings->anomaly, &engine->detector);
        if (r < 0)
            return r;
    }
    if (settings->interval_ns != engine->settings.interval_ns) {
        int r = ticker_start(engine->loop, settings->interval_ns, on_tick, engine, &ticker);
        if (r < 0)
            return r;
        ticker_close(engine->ticker);
        engine->ticker = ticker;
    }
    bool has_other_words = tick_builder_redact(&engine->builder, settings->redact);
    collector_redact(engine->collector, settings->redact);
    if (has_other_words)
        unseen_events_redact(&engine->unseen, settings->redact);
    if (has_other_words && engine->detector)
        detector_redact(engine->detector, settings->redact);
    if (settings->anomaly)
        detector_configure(engine->detector, settings->anomaly);
    rule_watch_configure(&engine->rules.watch, settings->rules);
    engine->rules.linger_ns = settings->linger_ns;
    engine->syscalls.choice = settings->syscalls;
    gpu_watch_configure(engine->gpus, settings->gpus);
    engine->settings = *settings;
    return 0;
}

static struct engine *engine_new(uv_loop_t *loop, const struct engine_options *options)
{
    struct engine *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return NULL;

    engine->options = *options;
    engine->loop = loop;
    engine->own_pid = getpid();
    engine->last = options->spawned_at;
    engine->pressure = pressure_input_of(NULL);
    engine->memory_total_mb = REAL_UNKNOWN;
    engine->builder.wants_events = options->wants_events;
    tick_builder_redact(&engine->builder, options->settings.redact); /* events come before ticks */
    engine->proc_fd = open(PROC_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
    rule_runs_init(&engine->rules, options->registry, engine->proc_fd);
    engine->syscalls.registry = options->registry;
    engine->syscalls.proc_fd = engine->proc_fd;
    uv_timer_init(loop, &engine->flush);
    uv_timer_init(loop, &engine->early);
    engine->flush.data = engine->early.data = engine;
    engine->open_handles = 2;
    return engine;
}

int engine_start(uv_loop_t *loop, const struct engine_options *options, struct engine **ret)
{
    struct engine *engine = engine_new(loop, options);
    if (!engine) {
        connector_close(options->connector);
        return -ENOMEM;
    }
    if (options->spawned_pid)
        add_own_spawn(engine);
    int r = engine_make_helpers(engine);
    if (r == 0)
        r = engine_make_gpu_watch(engine);
    if (r == 0)
        r = collector_new(
            &(struct collector_options){
                .registry = options->registry,
                .redact = options->settings.redact,
                .huge_pages_before = options->spawned_pid ? &options->huge_pages_before : NULL},
            &engine->collector);
    if (r == 0 && options->measured)
        sampler_expect_measures(collector_sampler(engine->collector), options->measured);
    engine->kernel =
        (struct kernel_account){.registry = options->registry, .collector = engine->collector};
    if (r == 0 && options->kernel)
        r = engine_use_kernel(engine, options->kernel);
    if (options->connector)
        engine_start_connector(engine, options->connector);
    if (r == 0)
        r = engine_configure(engine, &options->settings);
    if (r == 0)
        r = engine_collect(engine);
    if (r < 0) {
        engine_close(engine);
        return r;
    }
    *ret = engine;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct engine *engine = handle->data;

    if (--engine->open_handles == 0)
        free(engine);
}

void engine_close(struct engine *engine)
{
    if (!engine)
        return;
    ticker_close(engine->ticker);
    gpu_watch_close(engine->gpus);
    tracing_free(engine->tracing);
    helpers_close(engine->helpers);
    lifecycle_feed_close(engine->feed);
    collector_free(engine->collector);
    detector_free(engine->detector);
    rule_runs_done(&engine->rules);
    kernel_account_done(&engine->kernel);
    syscall_account_done(&engine->syscalls);
    VEC_DONE(&engine->pids);
    tick_builder_done(&engine->builder);
    unseen_events_done(&engine->unseen);
    close_fd(engine->proc_fd);
    uv_close((uv_handle_t *)&engine->flush, on_closed);
    uv_close((uv_handle_t *)&engine->early, on_closed);
}

/* ---- state ---- */

const struct engine_counts *engine_counts(const struct engine *engine)
{
    return &engine->counts;
}

bool engine_saw_every_process(const struct engine *engine)
{
    return engine->feed && !engine->has_lost_events;
}

struct helpers *engine_helpers(const struct engine *engine)
{
    return engine->helpers;
}

bool engine_has_events(const struct engine *engine)
{
    return engine->feed != NULL;
}

const char *engine_collector(const struct engine *engine)
{
    return collector_name(engine->collector);
}

void engine_describe_gpus(const struct engine *engine, char ret[static GPU_TEXT_SIZE])
{
    gpu_watch_describe(engine->gpus, ret);
}

const struct detector *engine_detector(const struct engine *engine)
{
    return engine->detector;
}

void engine_note_rate_limit(struct engine *engine, int64_t uid, const char *name, double seconds)
{
    uint64_t now_ns = clock_mono_ns();

    rate_limits_set(&engine->rate_limits, uid, name, now_ns + (uint64_t)(seconds * 1e9), now_ns);
}

void engine_pressure(const struct engine *engine, int64_t uid, struct pressure_limits *ret_limits,
                     struct pressure_input *ret_input)
{
    uint64_t now_ns = clock_mono_ns();
    const struct rate_limit *limit = rate_limits_find(&engine->rate_limits, uid, now_ns);

    *ret_limits = pressure_limits_resolve(engine->settings.limits, engine->memory_total_mb,
                                          collector_pids_limit(engine->collector));
    *ret_input = engine->pressure;
    if (limit) {
        ret_input->rate_limited_seconds = ns_to_sec(limit->until_ns - now_ns);
        ret_input->rate_limit_name = limit->name;
    }
}
