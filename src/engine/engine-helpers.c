/* Programs and threads beside the loop: helper programs, tracers among them, and the readers of
 * GPUs. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "config/paths.h"
#include "engine/engine-parts.h"
#include "loop/alarm.h"

/* How long a killed tracer may take to end. */
#define LATE_MSEC 500

/* Helpers are children of sonde that belong to no run. */
static void on_helper_started(void *context, pid_t pid)
{
    struct engine *engine = context;

    /* If memory runs out, the helper counts as a process of the run. */
    registry_exclude(engine->options.registry, pid);
}

static void on_helper_ended(void *context, pid_t pid)
{
    struct engine *engine = context;

    engine_drain(engine); /* the event of its fork may still be queued */
    registry_remove(engine->options.registry, pid);
}

/* ---- tracers ---- */

static void on_traced(void *context, const struct traced *traced)
{
    struct engine *engine = context;

    tick_builder_add_trace(&engine->builder, traced);
    engine_plan_flush(engine);
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

int engine_make_helpers(struct engine *engine)
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

/* Only wakes the loop. */
static void on_late(void *context _unused_)
{
}

/* The alarm ends the wait for a tracer that does not react to signals. */
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

int engine_make_gpu_watch(struct engine *engine)
{
    const struct gpu_watch_options options = {
        .roots = {.proc = PROC_ROOT, .sys = "/sys", .dev = "/dev"},
        .helpers = engine->helpers,
        .delay_ms = engine->options.gpus_after_ms,
        .may_begin = engine->options.may_inspect,
        .on_none = engine->options.on_no_gpus,
        .context = engine->options.context,
    };

    return gpu_watch_new(engine->loop, &options, &engine->gpus);
}

void engine_follow_members(struct engine *engine)
{
    const struct engine_options *options = &engine->options;

    if (engine->settings.traces_members &&
        (!options->may_inspect || options->may_inspect(options->context)))
        tracing_follow(engine->tracing);
}
