/* Events between snapshots, from the connector or from sonde's BPF programs, and the switch from
 * the connector to the BPF programs. */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/macros.h"
#include "engine/engine-parts.h"
#include "probe/process-lookup.h"

/* Each pass tags the processes that were forked during the previous one. */
#define TAG_PASSES_MAX 16
/* Two readings are enough unless the run forks all the time. */
#define COVER_READS_MAX 16

/* ---- events of members ---- */

static void on_flush(uv_timer_t *timer)
{
    engine_flush(timer->data);
}

void engine_plan_flush(struct engine *engine)
{
    engine_hand_over(engine);
    if (engine->options.flush_after_ms && engine->builder.box &&
        !uv_is_active((uv_handle_t *)&engine->flush))
        uv_timer_start(&engine->flush, on_flush, engine->options.flush_after_ms, 0);
}

static void on_account(void *context, struct member *member, const struct lifecycle_event *event)
{
    struct engine *engine = context;

    if (kernel_account_has_exact_ends(&engine->kernel) &&
        kernel_account_add_event(&engine->kernel, member, event) < 0)
        engine->counts.failed++;
    if (syscall_account_add_event(&engine->syscalls, member, event) < 0)
        engine->counts.failed_syscalls++;
}

/* Has the anomaly of an OOM kill reported soon, even with a long interval. */
static void schedule_oom_detection(struct engine *engine)
{
    engine->has_new_kill = engine->detector != NULL;
    if (engine->detector)
        engine_plan_early(engine);
}

static void on_member(void *context, struct member *member, const struct lifecycle_event *event,
                      double timestamp)
{
    struct engine *engine = context;

    tick_builder_add_lifecycle(&engine->builder, member, event, timestamp);
    if (event->kind == LIFECYCLE_EXIT)
        tracing_ended(engine->tracing, member);
    if (event->kind == LIFECYCLE_OOM)
        schedule_oom_detection(engine);
    engine_plan_flush(engine);
}

static void on_other(void *context, const struct lifecycle_event *event, double timestamp)
{
    struct engine *engine = context;

    if (event->kind == LIFECYCLE_EXEC) {
        rule_watch_executed(&engine->rules.watch, event->pid);
        return;
    }
    tick_builder_add_oom(&engine->builder, EVENT_OWNER_NONE, event, timestamp);
    schedule_oom_detection(engine);
    engine_plan_flush(engine);
}

void engine_hand_over(struct engine *engine)
{
    for (struct tick_box *box; (box = tick_builder_take(&engine->builder));) {
        if (!box->tick.snapshot && engine->detector)
            unseen_events_add(&engine->unseen, &box->tick.events);
        if (engine->options.on_tick)
            engine->options.on_tick(engine->options.context, box);
        else
            tick_box_free(box);
    }
}

void engine_drain(struct engine *engine)
{
    if (engine->feed)
        lifecycle_feed_drain(engine->feed);
}

void engine_report_held_kills(struct engine *engine)
{
    engine_drain(engine);
    if (engine->feed)
        lifecycle_feed_report_held_kills(engine->feed);
}

/* The kernel does not report the end of a process that was found by a scan and is not covered. */
static bool has_unreported_end(const struct member *member)
{
    return !member->has_ended && (!member->was_found || member->is_covered) &&
           process_lookup_is_gone(member->pid);
}

static uint64_t count_unreported(const struct engine *engine)
{
    const struct member *member = NULL;
    uint64_t count = 0;

    while ((member = registry_next(engine->options.registry, member)))
        count += has_unreported_end(member);
    return count;
}

/* The connector's event of an end is sent after the parent could reap the process (exit_notify(),
 * then proc_exit_connector()); on a busy machine, long after. The same holds for the last part of
 * the report by the BPF programs. */
void engine_await_ends(struct engine *engine, uint64_t patience_ns)
{
    const struct timespec pause = {.tv_nsec = NS_PER_MSEC};
    uint64_t until_ns = clock_mono_ns() + patience_ns;

    if (!engine->feed)
        return;
    engine_drain(engine);
    while (count_unreported(engine) && !lifecycle_feed_has_lost(engine->feed)) {
        if (clock_mono_ns() >= until_ns) {
            /* Reports the ends that are known in part. */
            const struct member *member = NULL;
            while ((member = registry_next(engine->options.registry, member)))
                if (has_unreported_end(member))
                    lifecycle_feed_settle(engine->feed, member->pid, 0);
            engine->unreported_ends = count_unreported(engine);
            return;
        }
        nanosleep(&pause, NULL);
        engine_drain(engine);
    }
}

/* Without the feed, the engine finds forks and ends by scanning. */
static int start_feed(struct engine *engine, const struct lifecycle_source *source)
{
    const struct lifecycle_feed_options options = {
        .registry = engine->options.registry,
        .on_member = on_member,
        .on_account = on_account,
        .on_other = on_other,
        .remembers_others = !engine->options.only_jobs,
        .context = engine,
    };

    int r = lifecycle_feed_start(engine->loop, source, &options, &engine->feed);
    if (r == 0)
        registry_trust_events(options.registry);
    return r;
}

void engine_start_connector(struct engine *engine, struct connector *connector)
{
    if (!engine->collector || engine->feed ||
        start_feed(engine, &(struct lifecycle_source){.connector = connector}) < 0)
        connector_close(connector);
}

/* ---- the kernel's own account ---- */

static enum probe_depth place_member(void *context, const struct process_reading *begun)
{
    struct engine *engine = context;
    struct member *member = NULL;

    registry_place(engine->options.registry, begun->pid, begun->ppid, begun->start_ticks, &member);
    if (member && begun->tag == member->node->tag)
        member->tag = begun->tag;
    /* /proc does not show a skipped process again in this scan. */
    return member || !engine->options.only_jobs ? PROBE_CORE : PROBE_SKIP;
}

/* Members fork while they are tagged one by one: once a pass finds no new member, every later fork
 * is reported. If the run never stops forking, the next snapshot tags the rest. `scans`: there were
 * no events so far, so members are found by a scan. Returns 0, 1 if some may be left, or a negative
 * errno. */
static int tag_all(struct engine *engine, bool scans)
{
    int r = 1;

    for (int pass = 0; pass < TAG_PASSES_MAX && r > 0; pass++) {
        engine_drain(engine);
        r = scans ? collector_scan(engine->collector, place_member, engine) : 0;
        if (r == 0)
            r = kernel_account_tag(&engine->kernel) > 0;
    }
    return r;
}

void engine_cover_members(struct engine *engine)
{
    kernel_account_begin(&engine->kernel);
    for (int i = 0; i < COVER_READS_MAX && kernel_account_cover(&engine->kernel) == 0; i++)
        engine_drain(engine);
}

/* The command that sonde started. If the BPF programs were loaded before it, it is covered from its
 * first instruction, and its system calls may be counted already. */
static int account_for_command(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    struct member *member = registry_find(options->registry, options->spawned_pid);
    int r = 0;

    if (!member)
        return 0;
    if (!engine->counts.collected && kernel_account_has_exact_ends(&engine->kernel)) {
        member->tag = member->run->node.tag; /* that of its step follows */
        member->is_covered = true;
        r = sampler_cover(collector_sampler(engine->collector), member->node, member->pid, 0, NULL);
    }
    if (r < 0 || !options->counts_spawned)
        return r;
    member->calls_since_ns = options->spawned_at.mono_ns;
    return syscall_account_start_counting(&engine->syscalls, member->run, true);
}

int engine_use_kernel(struct engine *engine, struct kernel_probe *kernel)
{
    engine->kernel.kernel = kernel;
    collector_use_kernel(engine->collector, kernel);
    engine->syscalls.kernel = kernel;
    if (!kernel_account_has_events(&engine->kernel))
        return 0;
    int r = account_for_command(engine);
    if (r < 0)
        return r;
    if (engine->feed) {
        r = tag_all(engine, false);
        if (r >= 0)
            r = lifecycle_feed_use_kernel(engine->feed, kernel);
    } else {
        r = start_feed(engine, &(struct lifecycle_source){.kernel = kernel});
        engine->has_lost_events |= engine->counts.collected > 0; /* earlier forks */
        engine->needs_scan = r == 0 && tag_all(engine, true) != 0;
        if (engine->needs_scan)
            sampler_mark_incomplete(collector_sampler(engine->collector));
    }
    if (r >= 0) {
        engine_cover_members(engine);
        return r;
    }
    collector_use_kernel(engine->collector, NULL);
    engine->kernel.kernel = NULL;
    engine->syscalls.kernel = NULL;
    return r;
}
