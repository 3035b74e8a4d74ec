/* Runs: registers their processes, and records the events of runs and steps. */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "config/paths.h"
#include "engine/earlier-forks.h"
#include "engine/engine-parts.h"
#include "probe/process-lookup.h"

/* When an early snapshot is taken after a process was registered: programs have finished their
 * start by then. */
#define EARLY_AFTER_MS 200
/* The shortest time between an early snapshot and the one before it. */
#define EARLY_EVERY_MS 1000

/* How long to wait for an end that the kernel is about to report: in a daemon that serves clients,
 * and in `sonde run`, which has nothing more important to do. */
#define SETTLE_NS        (20 * NS_PER_MSEC)
#define SETTLE_REAPED_NS NS_PER_SEC

void engine_settle(struct engine *engine, const struct run *run)
{
    struct proc_stat stat;

    engine_drain(engine);
    if (engine->feed && run->root_pid && !run->root_has_ended &&
        (process_lookup_stat(PROC_ROOT, run->root_pid, &stat) < 0 || stat.state == 'Z' ||
         stat.state == 'X'))
        lifecycle_feed_settle(engine->feed, run->root_pid, SETTLE_NS);
    engine_flush(engine);
}

bool engine_saw_fork(struct engine *engine, pid_t parent, pid_t pid)
{
    engine_drain(engine);
    const struct member *member = registry_find(engine->options.registry, pid);
    if (member)
        return !member->was_found && member->ppid == parent;
    return engine->feed && lifecycle_feed_saw_fork(engine->feed, parent, pid);
}

static void on_early(uv_timer_t *timer)
{
    struct engine *engine = timer->data;
    const struct member *member = NULL;
    bool is_needed = engine->has_new_kill;

    while (!is_needed && (member = registry_next(engine->options.registry, member)))
        is_needed = !member->start_ticks && !member->has_ended;
    if (is_needed)
        engine_collect(engine); /* counts its own failures */
}

void engine_plan_early(struct engine *engine)
{
    uint64_t since_ms = (clock_mono_ns() - engine->last.mono_ns) / NS_PER_MSEC;
    uint64_t rest_ms = since_ms < EARLY_EVERY_MS ? EARLY_EVERY_MS - since_ms : 0;

    if (engine->settings.interval_ns > EARLY_EVERY_MS * NS_PER_MSEC &&
        !uv_is_active((uv_handle_t *)&engine->early))
        uv_timer_start(&engine->early, on_early, MAX(rest_ms, (uint64_t)EARLY_AFTER_MS), 0);
}

bool engine_has_new_kill(const struct engine *engine)
{
    return engine->has_new_kill;
}

/* Whether an ended member is the process that a client names. If another one had its pid by now,
 * its fork would have been reported. */
static bool is_same(const struct member *member, const struct process_id *process)
{
    return !member->was_found && (!process->start_ticks || !member->start_ticks ||
                                  process->start_ticks == member->start_ticks);
}

int engine_register(struct engine *engine, struct run *run, int64_t sheet_num,
                    struct process_id process, enum event_replay replay)
{
    pid_t pid = process.pid;
    struct earlier_forks forks = {.registry = engine->options.registry};
    const struct event_owner owner = run_owner(run, sheet_num);

    engine_drain(engine); /* forks until now belong to its previous owner */
    const struct member *known = registry_find(forks.registry, pid);
    bool is_known = known && known->run == run; /* as a child of the run's `sonde run` */
    bool is_complete = known && !known->was_found;
    /* A process that begins a step belongs to it since its birth, unless it was registered or in a
     * step before. */
    bool from_now = known && (replay != REPLAY_FROM_BIRTH ||
                              (is_known && (registry_is_registered(forks.registry, pid) ||
                                            int_is_known(known->sheet_num))));
    /* Without it, what the process used since the last sample would count twice: no limit. */
    if (from_now && !engine->is_reading)
        engine_read_members(engine, known->run); /* else the last sample counts */
    int r = 0;
    if (known && known->has_ended && is_same(known, &process))
        registry_add_ended(forks.registry, run, sheet_num, pid);
    else
        r = registry_add(forks.registry, run, sheet_num, pid);
    if (r < 0)
        return r;
    r = engine_move_members(engine, from_now);
    if (process.start_ticks)
        registry_expect(forks.registry, pid, process.start_ticks);
    if (replay == REPLAY_FROM_BIRTH && engine->feed && !is_complete)
        is_known |= lifecycle_feed_replay(engine->feed, pid, &is_complete);
    run->misses_early_events = engine->feed && !is_complete;
    struct run_sheet *step = run_find_sheet(run, sheet_num);
    if (step)
        step->misses_early_events |= !is_complete;
    if (!is_known && replay != REPLAY_NONE)
        tick_builder_add_spawn(&engine->builder, owner, pid, INT_UNKNOWN,
                               ns_to_sec(clock_real_ns()));
    if (r == 0 && process.start_ticks)
        r = earlier_forks_place(&forks, engine->proc_fd, pid);
    else if ((known = registry_find(forks.registry, pid)) && !known->has_ended)
        registry_remove(forks.registry, pid); /* it is gone: the next process may get its pid */
    engine_drain(engine);
    if (replay == REPLAY_FROM_BIRTH)
        earlier_forks_report(&forks, &engine->builder);
    earlier_forks_done(&forks);
    if (!engine->is_reading) { /* else with the next snapshot: readings are not nested */
        engine_cover_members(engine);
        syscall_account_catch_up(&engine->syscalls);
    }
    engine_plan_flush(engine);
    /* After a restart, the daemon finds a run by its stored processes: they are stored soon. */
    engine_plan_early(engine);
    if (!engine->is_reading)
        engine_follow_members(engine);
    return r;
}

/* System calls need no mark: for a registered run they are always sampled or a lower bound. */
int engine_set_parent(struct engine *engine, struct run *run, struct run_node *parent)
{
    return kernel_account_set_parent(&engine->kernel, run, parent);
}

void engine_report_step(struct engine *engine, const struct run *run, int64_t sheet_num,
                        enum event_type type, pid_t pid, int64_t exit_code, const char *details,
                        double timestamp)
{
    const struct event_owner owner = run_owner(run, sheet_num);

    tick_builder_add_step(&engine->builder, owner, type, pid, exit_code, details, timestamp);
    engine_plan_flush(engine);
}

/* Flushes first: the events need the run. */
void engine_end_run(struct engine *engine, struct run *run)
{
    engine_flush(engine);
    if (engine->detector)
        detector_end_run(engine->detector, run->run_id);
    failure_chains_forget_run(&engine->builder.failures, run->run_id);
    sampler_end_run(collector_sampler(engine->collector), run);
    run->calls_are_counted |= call_ledger_is_counted(&engine->syscalls.ledger, run);
    syscall_account_end_run(&engine->syscalls, run);
    tracing_end_run(engine->tracing, run, run->calls_are_counted);
    registry_end_run(engine->options.registry, run);
}

/* Completes the end of a reaped process if it belongs to the next tick. The kernel reports an end
 * before a process can be reaped, unless events were lost; then the end is added here. */
static void add_reaped_end(struct engine *engine, struct run *run, pid_t pid, int wait_status,
                           const struct rusage *usage)
{
    const struct member *member = registry_find(engine->options.registry, pid);
    struct tick_box *box = engine->builder.box;
    bool is_reported = member && member->has_ended && !member->was_found;
    const struct event_owner owner = run_owner(run, member ? member->sheet_num : INT_UNKNOWN);

    if (is_reported && run->node.processes > 1) /* there is nothing to add to the event */
        return;
    struct process_event *end = box ? tick_box_find_end(box, pid) : NULL;
    if (!end && !is_reported)
        end = tick_builder_add_end(&engine->builder, owner, pid, wait_status,
                                   ns_to_sec(clock_real_ns()));
    /* The rusage of a reaped process includes the children that it reaped; it is its own only if
     * the run never had another process. */
    if (!end || run->node.processes != 1 || !engine_saw_every_process(engine) ||
        real_is_known(end->cpu_seconds))
        return;
    end->cpu_seconds = ns_to_sec(cpu_and_io_of(usage).total_ns);
    end->peak_rss_mb = (double)usage->ru_maxrss * 1024 / BYTES_PER_MB;
}

static bool is_report_missing(const struct engine *engine, pid_t pid)
{
    const struct member *member = registry_find(engine->options.registry, pid);

    return member && member->is_covered && !member->is_counted;
}

/* Waits for the exit of a process that sonde has reaped. If the process is covered, its event may
 * be in the ring behind one of a process that lost the CPU while it wrote that. */
static void await_reaped(struct engine *engine, pid_t pid)
{
    const struct timespec pause = {.tv_nsec = NS_PER_MSEC};
    uint64_t until_ns = clock_mono_ns() + SETTLE_REAPED_NS;

    lifecycle_feed_settle(engine->feed, pid, SETTLE_REAPED_NS);
    while (is_report_missing(engine, pid) && !lifecycle_feed_has_lost(engine->feed) &&
           clock_mono_ns() < until_ns) {
        nanosleep(&pause, NULL);
        engine_drain(engine);
        lifecycle_feed_settle(engine->feed, pid, SETTLE_REAPED_NS);
    }
}

void engine_reaped(struct engine *engine, pid_t pid, int wait_status, const struct rusage *usage)
{
    struct registry *registry = engine->options.registry;

    engine_drain(engine); /* the event of its fork may still be queued */
    if (engine->feed)
        await_reaped(engine, pid);
    struct run *run = registry_run_of_reaped(registry, getpid(), pid);
    const struct member *member = registry_find(registry, pid);
    const struct run_node *node = member ? member->node : run ? &run->node : NULL;
    bool is_counted = member && member->is_counted;
    if (run && engine->options.wants_events)
        add_reaped_end(engine, run, pid, wait_status, usage);
    engine_hand_over(engine);
    if (run && !is_counted &&
        sampler_reaped(collector_sampler(engine->collector), node, pid, usage) < 0)
        engine->counts.failed++;
    /* For a process that ended, or executed a program, before the BPF programs were loaded, only
     * wait4 has the peak. It includes reaped descendants, which all belong to the run, and of the
     * command what sonde had in memory at the fork: much, if the programs were loaded already. */
    if (run && is_counted && !engine->options.kernel)
        sampler_raise_peak(collector_sampler(engine->collector), &run->node,
                           (int64_t)usage->ru_maxrss * 1024);
    registry_remove(registry, pid);
}

void engine_signalled(struct engine *engine, const struct run *run, pid_t pid,
                      const struct process_event *sent)
{
    const struct member *member = registry_find(engine->options.registry, pid);
    const struct event_owner owner =
        member && member->run == run ? member_owner(member) : run_owner(run, INT_UNKNOWN);

    tick_builder_add_signal(&engine->builder, owner, pid, sent, ns_to_sec(clock_real_ns()));
    engine_plan_flush(engine);
}

const struct run_usage *engine_usage(const struct engine *engine, const struct run *run)
{
    return sampler_usage(collector_sampler(engine->collector), &run->node);
}

int engine_find_failure_chain(const struct engine *engine, const struct run *run, pid_t pid,
                              int64_t exit_code, int64_t signal_num, struct arena *arena,
                              struct process_event_list *ret_chain,
                              struct process_event_list *ret_on_the_way)
{
    return failure_chains_find(&engine->builder.failures, run->run_id, pid, exit_code, signal_num,
                               arena, ret_chain, ret_on_the_way);
}

int engine_syscalls(const struct engine *engine, const struct run *run, struct arena *arena,
                    struct run_syscalls *ret)
{
    bool is_counted = call_ledger_is_counted(&engine->syscalls.ledger, run);

    /* Counts of a tracer are better than samples. */
    int r = is_counted ? 0 : tracing_fill_run(engine->tracing, run, arena, ret);
    if (r < 0 || (!is_counted && ret->source))
        return r;
    return call_ledger_fill_run(&engine->syscalls.ledger, run, arena, ret);
}
