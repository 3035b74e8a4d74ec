/* The way of the data:
 *
 *     probe (procfs or bpf, system)  probe (bpf or connector)
 *            | raw readings                | births, programs, ends, signals
 *            v                             v
 *     sample (rates, ledger) <------- jobs (whose is it) <------- rules (rule-runs)
 *            | a finished snapshot         | events of the processes of runs
 *            v                             v
 *     engine_collect() -----------> intake: the box of this tick
 *            | all processes               |
 *            v                             v
 *     detect (anomalies, pressure) --> on_tick --> store-writer (its own thread) --> store
 *                                             `--> bus --> rpc
 */
#include "engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/vec.h"
#include "detect/rate-limit.h"
#include "engine/earlier-forks.h"
#include "engine/intake.h"
#include "engine/kernel-account.h"
#include "engine/lifecycle-feed.h"
#include "engine/rule-runs.h"
#include "engine/syscall-account.h"
#include "engine/unseen-events.h"
#include "loop/alarm.h"
#include "loop/helper.h"
#include "loop/ticker.h"
#include "sample/scope.h"

/* Of a process that was registered: when it has done what programs do at their start. */
#define EARLY_AFTER_MS 200
#define EARLY_EVERY_MS 1000

/* Of tracers that are killed: until they are gone. */
#define LATE_MSEC 500

/* Each pass tags what was forked during the last one. */
#define TAG_PASSES_MAX 16

struct engine {
    struct engine_options options;
    struct engine_settings settings;
    uv_loop_t *loop;
    pid_t own_pid;
    int proc_fd;
    struct collector *collector;
    struct kernel_account kernel;
    struct syscall_account syscalls;
    struct lifecycle_feed *feed;
    struct detector *detector;
    struct rule_runs rules;
    struct helpers *helpers;
    struct gpu_watch *gpus;
    struct tracing *tracing;
    struct ticker *ticker;
    uv_timer_t flush;
    uv_timer_t early; /* a snapshot that does not wait for its tick */
    int open_handles;
    struct intake intake;
    struct unseen_events unseen;
    struct VEC(pid_t) pids;
    struct moment last;
    int64_t snapshot_id;
    struct pressure_input pressure; /* as of the last snapshot */
    double memory_total_mb;
    struct rate_limits rate_limits;
    bool skip_next_tick;
    bool is_reading;   /* a snapshot is being taken */
    bool is_resyncing; /* events were lost: members are looked for */
    bool must_look;    /* … once, because nobody has told of them until now */
    bool is_failing;
    bool has_lost_events;
    struct engine_counts counts;
};

/* ---- events of members ---- */

static void on_flush(uv_timer_t *timer)
{
    engine_flush(timer->data);
}

static void plan_flush(struct engine *engine)
{
    if (engine->options.flush_after_ms && engine->intake.box &&
        !uv_is_active((uv_handle_t *)&engine->flush))
        uv_timer_start(&engine->flush, on_flush, engine->options.flush_after_ms, 0);
}

static void on_account(void *context, struct member *member, const struct lifecycle_event *event)
{
    struct engine *engine = context;

    if (kernel_account_has_exact_ends(&engine->kernel) &&
        kernel_account_note(&engine->kernel, member, event) < 0)
        engine->counts.failed++;
    if (syscall_account_note(&engine->syscalls, member, event) < 0)
        engine->counts.failed_syscalls++;
}

static void on_member(void *context, struct member *member, const struct lifecycle_event *event,
                      double timestamp)
{
    struct engine *engine = context;

    intake_lifecycle(&engine->intake, member, event, timestamp);
    if (event->kind == LIFECYCLE_EXIT)
        tracing_ended(engine->tracing, member);
    plan_flush(engine);
}

static void on_other(void *context, const struct lifecycle_event *event, double timestamp)
{
    const struct owner nobody = {.sheet_num = INT_UNKNOWN};
    struct engine *engine = context;

    if (event->kind == LIFECYCLE_EXEC) {
        rule_watch_executed(&engine->rules.watch, event->pid);
        return;
    }
    intake_oom(&engine->intake, nobody, event, timestamp);
    plan_flush(engine);
}

static void hand_over(void *context, struct tick_box *box)
{
    struct engine *engine = context;

    if (!box->tick.snapshot && engine->detector)
        unseen_events_note(&engine->unseen, &box->tick.events);
    if (engine->options.on_tick)
        engine->options.on_tick(engine->options.context, box);
    else
        tick_box_free(box);
}

static void drain(struct engine *engine)
{
    if (engine->feed)
        lifecycle_feed_drain(engine->feed);
}

/* ---- one collection ---- */

/* The job that a rule gives a process that belongs to none; whether one does. */
static bool apply_rules(struct engine *engine, pid_t pid, uint64_t start_ticks)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rule_find found;

    if (rule_runs_find(&engine->rules, pid, start_ticks, &arena, &found) <= 0)
        return false;
    engine_register(engine, found.run, INT_UNKNOWN, (struct told_process){pid, start_ticks},
                    TELL_FROM_NOW);
    if (found.is_new && engine->options.on_run_found)
        engine->options.on_run_found(engine->options.context, found.run, &found.facts);
    return true;
}

/* Whether a process that the scan meets is read, and how deeply. */
static enum probe_depth depth_of(void *context, const struct process_reading *begun)
{
    struct engine *engine = context;
    struct registry *registry = engine->options.registry;
    struct member *member = NULL;

    if (begun->pid == engine->own_pid)
        return PROBE_CORE;
    /* Without memory to note a member, it is asked for again at the next tick. */
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

/* Drains the events; whether they leave nothing to look for. */
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
        sampler_distrust(collector_sampler(engine->collector));
    engine->syscalls.lost_batches++;
    deaths_distrust(&engine->intake.deaths);
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
    struct collect_request request = {.depth = depth_of, .context = engine};

    bool are_known = members_are_known(engine);
    if (are_known && !TAKE(engine->must_look, false) && engine->options.only_jobs) {
        int r = list_members(engine);
        if (r < 0)
            return r;
        request.pids = engine->pids.items;
        request.pid_count = engine->pids.count;
    }
    kernel_account_cover(&engine->kernel);
    rule_runs_begin(&engine->rules);
    engine->is_reading = true;
    int r = collector_take(engine->collector, &request, ret, ret_moment);
    engine->is_reading = false;
    if (r < 0)
        return r;
    rule_runs_scanned(&engine->rules);
    if (syscall_account_take(&engine->syscalls, ret_moment, engine->settings.interval_ns, *ret) < 0)
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
    intake_gap(&engine->intake,
               &(struct gap){.kind = GAP_EVENTS,
                             .timestamp = ns_to_sec(now->real_ns),
                             .seconds = ns_to_sec(now->mono_ns - engine->last.mono_ns),
                             .lost = lost,
                             .reason = reason});
}

/* What is missing since the last snapshot, or since a run began, if there was none yet. */
static void add_gaps(struct engine *engine, const struct moment *now, uint64_t losses_before)
{
    if (engine->last.mono_ns) {
        struct gap gap = gap_between(&engine->last, now, engine->settings.interval_ns);
        if (gap.kind != GAP_NONE)
            intake_gap(&engine->intake, &gap);
        if (engine->options.wants_events && engine->counts.event_losses > losses_before)
            add_event_gap(engine, now, INT_UNKNOWN, "the kernel's queue of events overflowed");
    }
    uint64_t lost = intake_take_lost(&engine->intake);
    if (lost)
        add_event_gap(engine, now, (int64_t)lost, "there was no memory for them");
    engine->last = *now;
}

/* ---- what is made of it ---- */

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
    struct tick_box *box = engine->intake.box;

    if (!engine->detector)
        return;
    unseen_events_note(&engine->unseen, &box->tick.events);
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

/* A zombie that nobody reaps keeps no run alive; a member that is hidden from us does. */
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

/* Anomalies and pressure are those of all processes; then comes what is worth keeping of them. If
 * there is no memory to choose, all is kept. */
static void finish(struct engine *engine, struct snapshot *snapshot, const struct moment *now)
{
    engine->snapshot_id =
        snapshot_id_next(engine->snapshot_id, snapshot->timestamp, (unsigned)getpid());
    snapshot->id = engine->snapshot_id;
    count_living(engine, snapshot);
    find_pressure(engine, snapshot);
    find_anomalies(engine, snapshot, now);
    scope_apply(engine->settings.scope, &snapshot->processes, is_in_episode, engine);
}

static void note_result(struct engine *engine, int error)
{
    bool is_news = (error < 0) != engine->is_failing;

    engine->is_failing = error < 0;
    if (is_news && engine->options.on_collection)
        engine->options.on_collection(engine->options.context, error);
}

static void follow_members(struct engine *engine)
{
    const struct engine_options *options = &engine->options;

    if (engine->settings.traces_members &&
        (!options->may_look_deeper || options->may_look_deeper(options->context)))
        tracing_follow(engine->tracing);
}

int engine_collect(struct engine *engine)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
    uint64_t losses_before = engine->counts.event_losses;
    struct moment now;

    int r = collect(engine, &snapshot, &now);
    if (r == 0 && !intake_box(&engine->intake))
        r = -ENOMEM;
    note_result(engine, r);
    if (r < 0) {
        engine->counts.failed++;
        engine->skip_next_tick = true;
        engine->pressure = pressure_input_of(NULL);
        return r;
    }
    engine->counts.collected++;
    add_gaps(engine, &now, losses_before);
    finish(engine, snapshot, &now);
    uv_timer_stop(&engine->flush);
    intake_hand_over(&engine->intake, TAKE_PTR(snapshot));
    follow_members(engine);
    if (engine->options.on_run_over)
        rule_runs_end(&engine->rules, now.mono_ns, engine->options.on_run_over,
                      engine->options.context);
    return 0;
}

void engine_flush(struct engine *engine)
{
    drain(engine);
    uv_timer_stop(&engine->flush);
    intake_hand_over(&engine->intake, NULL);
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
static int start_feed(struct engine *engine, const struct lifecycle_source *source)
{
    const struct lifecycle_feed_options options = {
        .registry = engine->options.registry,
        .on_member = on_member,
        .on_account = on_account,
        .on_other = on_other,
        .context = engine,
    };

    int r = lifecycle_feed_start(engine->loop, source, &options, &engine->feed);
    if (r == 0)
        registry_trust_events(options.registry);
    return r;
}

static void start_connector(struct engine *engine, struct connector *connector)
{
    if (!engine->collector || engine->feed ||
        start_feed(engine, &(struct lifecycle_source){.connector = connector}) < 0)
        connector_close(connector);
}

/* ---- the kernel's own account ---- */

/* Members fork while they are told of one by one: once none is new, all that come are told of. In a
 * storm that never ends, those that are left are told of with the next snapshot. */
static int tag_all(struct engine *engine)
{
    int r = 1;

    for (int pass = 0; pass < TAG_PASSES_MAX && r > 0; pass++) {
        drain(engine);
        r = kernel_account_tag(&engine->kernel);
    }
    return MIN(r, 0);
}

/* With the kernel's own programs there before it, it was born under their eyes. */
static int cover_own_spawn(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    struct member *member = registry_find(options->registry, options->spawned_pid);

    if (!member || !kernel_account_has_exact_ends(&engine->kernel))
        return 0;
    member->tag = member->run->tag;
    member->is_covered = true;
    return sampler_cover(collector_sampler(engine->collector), member->run, member->pid, 0, NULL);
}

static int count_own_spawn(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    struct member *member = registry_find(options->registry, options->spawned_pid);

    if (!member || !options->counts_spawned)
        return 0;
    member->calls_since_ns = options->spawned_at.mono_ns;
    return syscall_account_count(&engine->syscalls, member->run, true);
}

static void leave_kernel(struct engine *engine)
{
    collector_use_kernel(engine->collector, NULL);
    engine->kernel.kernel = NULL;
    engine->syscalls.kernel = NULL;
}

int engine_use_kernel(struct engine *engine, struct kernel_probe *kernel)
{
    int r = 0;

    engine->kernel.kernel = kernel;
    engine->kernel.registry = engine->options.registry;
    engine->kernel.collector = engine->collector;
    collector_use_kernel(engine->collector, kernel);
    engine->syscalls.kernel = kernel;
    if (!kernel_account_has_events(&engine->kernel))
        return 0;
    if (!engine->counts.collected) /* from the beginning */
        r = cover_own_spawn(engine);
    if (r == 0)
        r = count_own_spawn(engine);
    if (r < 0)
        return r;
    if (engine->feed) {
        r = tag_all(engine);
        if (r == 0)
            r = lifecycle_feed_use_kernel(engine->feed, kernel);
    } else {
        r = start_feed(engine, &(struct lifecycle_source){.kernel = kernel});
        engine->has_lost_events |= engine->counts.collected > 0; /* those of before */
        engine->must_look = true;
    }
    if (r < 0)
        leave_kernel(engine);
    else
        kernel_account_cover(&engine->kernel);
    return r;
}

static void add_own_spawn(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    const struct member *member = registry_find(options->registry, options->spawned_pid);

    if (member)
        intake_spawn(&engine->intake, owner_of(member), member->pid, getpid(),
                     ns_to_sec(options->spawned_at.real_ns));
}

static int apply_settings(struct engine *engine, const struct engine_settings *settings)
{
    bool has_other_interval = settings->interval_ns != engine->settings.interval_ns;
    struct ticker *ticker = NULL;

    if (settings->anomaly && !engine->detector) {
        int r = detector_new(settings->anomaly, &engine->detector);
        if (r < 0)
            return r;
    }
    if (has_other_interval) {
        int r = ticker_start(engine->loop, settings->interval_ns, on_tick, engine, &ticker);
        if (r < 0)
            return r;
        ticker_close(engine->ticker);
        engine->ticker = ticker;
    }
    if (settings->anomaly)
        detector_configure(engine->detector, settings->anomaly);
    rule_watch_configure(&engine->rules.watch, settings->rules);
    engine->syscalls.choice = settings->syscalls;
    gpu_watch_configure(engine->gpus, settings->gpus);
    engine->settings = *settings;
    return 0;
}

int engine_configure(struct engine *engine, const struct engine_settings *settings)
{
    return apply_settings(engine, settings);
}

/* Helpers are sonde's own: children of sonde that belong to no run. */
static void on_helper_started(void *context, pid_t pid)
{
    struct engine *engine = context;

    registry_add_stranger(engine->options.registry, pid); /* without memory, it is one of a run */
}

static void on_helper_ended(void *context, pid_t pid)
{
    struct engine *engine = context;

    drain(engine); /* what tells of its fork may still wait */
    registry_remove(engine->options.registry, pid);
}

/* ---- tracers ---- */

static void on_traced(void *context, const struct traced *traced)
{
    struct engine *engine = context;

    intake_traced(&engine->intake, traced);
    plan_flush(engine);
}

static void on_late_calls(void *context, const char *run_id, const struct syscall_profile *calls)
{
    struct engine *engine = context;
    _cleanup_(arena_done) struct arena arena = {0};
    struct run_syscalls syscalls;

    if (!engine->options.on_late_syscalls)
        return;
    if (syscall_profile_fill_run(calls, SYSCALLS_STRACE, LOWER_BOUND, &arena, &syscalls) < 0)
        engine->counts.failed_syscalls++;
    else
        engine->options.on_late_syscalls(engine->options.context, run_id, &syscalls);
}

static int make_helpers(struct engine *engine)
{
    const struct helpers_options options = {
        .on_start = on_helper_started, .on_end = on_helper_ended, .context = engine};

    int r = helpers_new(engine->loop, &options, &engine->helpers);
    if (r < 0)
        return r;
    const struct tracing_options tracing = {.helpers = engine->helpers,
                                            .registry = engine->options.registry,
                                            .on_traced = on_traced,
                                            .on_late = on_late_calls,
                                            .context = engine};
    return tracing_new(&tracing, &engine->tracing);
}

/* It wakes the loop. */
static void on_late(void *context _unused_)
{
}

/* One that no signal reaches is not waited for. */
void engine_stop_tracing(struct engine *engine)
{
    uint64_t until_ns = clock_mono_ns() + (TRACE_LAST_WAIT_MSEC + LATE_MSEC) * NS_PER_MSEC;
    struct alarm *alarm = NULL;

    tracing_detach_all(engine->tracing);
    if (!tracing_count(engine->tracing) || alarm_new(engine->loop, on_late, NULL, &alarm) < 0)
        return;
    alarm_set(alarm, TRACE_LAST_WAIT_MSEC + LATE_MSEC);
    while (tracing_count(engine->tracing) && clock_mono_ns() < until_ns)
        uv_run(engine->loop, UV_RUN_ONCE);
    alarm_close(alarm);
}

struct tracing *engine_tracing(const struct engine *engine)
{
    return engine->tracing;
}

static int make_gpu_watch(struct engine *engine)
{
    const struct gpu_watch_options options = {
        .roots = {.proc = "/proc", .sys = "/sys", .dev = "/dev"},
        .helpers = engine->helpers,
        .delay_ms = engine->options.gpus_after_ms,
        .may_begin = engine->options.may_look_deeper,
        .on_none = engine->options.on_no_gpus,
        .context = engine->options.context,
    };

    return gpu_watch_new(engine->loop, &options, &engine->gpus);
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
    engine->intake = (struct intake){
        .wants_events = options->wants_events, .hand_over = hand_over, .context = engine};
    engine->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
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
    int r = make_helpers(engine);
    if (r == 0)
        r = make_gpu_watch(engine);
    if (r == 0)
        r = collector_new(&(struct collector_options){.registry = options->registry},
                          &engine->collector);
    if (r == 0 && options->kernel)
        r = engine_use_kernel(engine, options->kernel);
    if (options->connector)
        start_connector(engine, options->connector);
    if (r == 0)
        r = apply_settings(engine, &options->settings);
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
    intake_done(&engine->intake);
    unseen_events_done(&engine->unseen);
    close_fd(engine->proc_fd);
    uv_close((uv_handle_t *)&engine->flush, on_closed);
    uv_close((uv_handle_t *)&engine->early, on_closed);
}

/* ---- runs ---- */

void engine_catch_up(struct engine *engine)
{
    drain(engine);
}

bool engine_saw_fork(struct engine *engine, pid_t parent, pid_t pid)
{
    drain(engine);
    return engine->feed && lifecycle_feed_saw_fork(engine->feed, parent, pid);
}

static bool has_unread_member(const struct engine *engine)
{
    const struct member *member = NULL;

    while ((member = registry_next(engine->options.registry, member)))
        if (!member->start_ticks && !member->has_ended)
            return true;
    return false;
}

static void on_early(uv_timer_t *timer)
{
    struct engine *engine = timer->data;

    if (has_unread_member(engine))
        engine_collect(engine); /* a failure is counted there */
}

/* The first process of a run is looked at soon, however long the interval: a run is found again
 * after a restart by the processes that are stored of it. Not more than once a second. */
static void plan_early(struct engine *engine)
{
    uint64_t since_ms = (clock_mono_ns() - engine->last.mono_ns) / NS_PER_MSEC;
    uint64_t rest_ms = since_ms < EARLY_EVERY_MS ? EARLY_EVERY_MS - since_ms : 0;

    if (engine->settings.interval_ns > EARLY_EVERY_MS * NS_PER_MSEC &&
        !uv_is_active((uv_handle_t *)&engine->early))
        uv_timer_start(&engine->early, on_early, MAX(rest_ms, (uint64_t)EARLY_AFTER_MS), 0);
}

/* What it was is told; whoever gets its pid is somebody else. */
static void let_go(struct engine *engine, pid_t pid)
{
    const struct member *member = registry_find(engine->options.registry, pid);

    if (member && !member->has_ended)
        registry_remove(engine->options.registry, pid);
}

int engine_register(struct engine *engine, struct run *run, int64_t sheet_num,
                    struct told_process process, enum telling telling)
{
    pid_t pid = process.pid;
    struct earlier_forks forks = {.registry = engine->options.registry};
    const struct owner owner = {.run = run, .sheet_num = sheet_num};

    drain(engine); /* forks until now are those of whoever owned it until now */
    const struct member *known = registry_find(forks.registry, pid);
    bool is_known = known && known->run == run; /* as the child of a foster parent */
    int r = registry_add(forks.registry, run, sheet_num, pid);
    if (r < 0)
        return r;
    if (process.start_ticks)
        registry_expect(forks.registry, pid, process.start_ticks);
    if (telling == TELL_FROM_BIRTH && engine->feed)
        is_known |= lifecycle_feed_replay(engine->feed, pid);
    if (!is_known && telling != TELL_NOTHING)
        intake_spawn(&engine->intake, owner, pid, INT_UNKNOWN, ns_to_sec(clock_real_ns()));
    if (process.start_ticks)
        r = earlier_forks_place(&forks, engine->proc_fd, pid);
    else
        let_go(engine, pid);
    drain(engine);
    if (telling == TELL_FROM_BIRTH)
        earlier_forks_tell(&forks, &engine->intake);
    earlier_forks_done(&forks);
    if (!engine->is_reading) { /* else with the next snapshot: one reading at a time */
        kernel_account_cover(&engine->kernel);
        syscall_account_catch_up(&engine->syscalls);
    }
    plan_flush(engine);
    plan_early(engine);
    if (!engine->is_reading)
        follow_members(engine);
    return r;
}

void engine_tell_step(struct engine *engine, const struct run *run, int64_t sheet_num,
                      enum event_type type, pid_t pid, int64_t exit_code, const char *details)
{
    const struct owner owner = {.run = run, .sheet_num = sheet_num};

    intake_step(&engine->intake, owner, type, pid, exit_code, details, ns_to_sec(clock_real_ns()));
    plan_flush(engine);
}

/* What has happened to it is told while it is known. */
void engine_end_run(struct engine *engine, struct run *run)
{
    engine_flush(engine);
    if (engine->detector)
        detector_end_run(engine->detector, run->run_id);
    deaths_forget_run(&engine->intake.deaths, run->run_id);
    sampler_end_run(collector_sampler(engine->collector), run);
    run->calls_are_counted |= call_ledger_counts(&engine->syscalls.ledger, run);
    syscall_account_end_run(&engine->syscalls, run);
    tracing_end_run(engine->tracing, run, run->calls_are_counted);
    registry_end_run(engine->options.registry, run);
}

/* The end of a process that was reaped, if it belongs to the next tick. The kernel tells of an end
 * before a process can be reaped, unless events were lost: then it is told of here. */
static struct process_event *find_or_add_end(struct engine *engine, struct run *run, pid_t pid,
                                             int wait_status)
{
    const struct member *member = registry_find(engine->options.registry, pid);
    struct tick_box *box = engine->intake.box;
    bool is_told = member && member->has_ended && !member->was_found;
    struct owner owner = {.run = run, .sheet_num = member ? member->sheet_num : INT_UNKNOWN};

    if (is_told && run->processes > 1) /* not worth the search */
        return NULL;
    struct process_event *end = box ? tick_box_find_end(box, pid) : NULL;
    if (end || is_told)
        return end;
    return intake_end(&engine->intake, owner, pid, wait_status, ns_to_sec(clock_real_ns()));
}

/* What the kernel accounts to a process that was reaped includes what that had reaped: it is its
 * own where it is the only one there ever was. */
static void add_end(struct engine *engine, struct run *run, pid_t pid, int wait_status,
                    const struct rusage *usage)
{
    struct process_event *end = find_or_add_end(engine, run, pid, wait_status);

    if (!end || run->processes != 1 || !engine_saw_every_process(engine) ||
        real_is_known(end->cpu_seconds))
        return;
    end->cpu_seconds = ns_to_sec(cpu_time_of(usage).total_ns);
    end->peak_rss_mb = (double)usage->ru_maxrss * 1024 / BYTES_PER_MB;
}

void engine_reaped(struct engine *engine, pid_t pid, int wait_status, const struct rusage *usage)
{
    struct registry *registry = engine->options.registry;

    drain(engine); /* what tells of its fork may still wait */
    if (engine->feed)
        lifecycle_feed_settle(engine->feed, pid);
    struct run *run = registry_run_of_reaped(registry, getpid(), pid);
    const struct member *member = registry_find(registry, pid);
    bool is_counted = member && member->is_counted;
    if (run && engine->options.wants_events)
        add_end(engine, run, pid, wait_status, usage);
    if (run && !is_counted &&
        sampler_reaped(collector_sampler(engine->collector), run, pid, usage) < 0)
        engine->counts.failed++;
    /* Of what ended before the kernel's own programs were there, wait4 alone knows the peak. */
    if (run && is_counted && !engine->options.kernel)
        sampler_note_peak(collector_sampler(engine->collector), run,
                          (int64_t)usage->ru_maxrss * 1024);
    registry_remove(registry, pid);
}

void engine_signalled(struct engine *engine, const struct run *run, pid_t pid,
                      const struct process_event *sent)
{
    const struct member *member = registry_find(engine->options.registry, pid);
    const struct owner of_run = {.run = run, .sheet_num = INT_UNKNOWN};
    const struct owner owner = member && member->run == run ? owner_of(member) : of_run;

    intake_signal(&engine->intake, owner, pid, sent, ns_to_sec(clock_real_ns()));
    plan_flush(engine);
}

const struct run_usage *engine_usage(const struct engine *engine, const struct run *run)
{
    return sampler_usage(collector_sampler(engine->collector), run);
}

int engine_find_death(const struct engine *engine, const struct run *run, pid_t pid,
                      int64_t exit_code, int64_t signal_num, struct arena *arena,
                      struct process_event_list *ret)
{
    return deaths_find(&engine->intake.deaths, run->run_id, pid, exit_code, signal_num, arena, ret);
}

int engine_syscalls(const struct engine *engine, const struct run *run, struct arena *arena,
                    struct run_syscalls *ret)
{
    bool is_counted = call_ledger_counts(&engine->syscalls.ledger, run);

    /* What a tracer has counted is better than samples. */
    int r = is_counted ? 0 : tracing_fill_run(engine->tracing, run, arena, ret);
    if (r < 0 || (!is_counted && ret->source))
        return r;
    return call_ledger_fill_run(&engine->syscalls.ledger, run, arena, ret);
}

/* ---- how it stands ---- */

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

void engine_describe_gpus(const struct engine *engine, char ret[static GPU_WORDS_SIZE])
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

    rate_limits_note(&engine->rate_limits, uid, name, now_ns + (uint64_t)(seconds * 1e9), now_ns);
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
