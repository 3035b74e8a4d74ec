/* The last reading of a run or a step, and the figures of a step at its end. */
#include <errno.h>

#include "base/clock.h"
#include "base/macros.h"
#include "config/paths.h"
#include "engine/engine-parts.h"
#include "probe/host.h"
#include "probe/process-lookup.h"

/* How long to wait for ends that the kernel is about to report. */
#define SETTLE_NS (20 * NS_PER_MSEC)

int engine_read_members(struct engine *engine, const struct run *run)
{
    uint64_t began_ns = clock_mono_ns();
    const struct run *root = run_outermost(run);
    const struct member *member = NULL;
    const struct readings *readings;
    int r = 0;

    engine_drain(engine);
    engine->pids.count = 0;
    while (r == 0 && (member = registry_next(engine->options.registry, member)))
        if (run_outermost(member->run) == root)
            r = VEC_PUSH(&engine->pids, member->pid);
    if (r == 0)
        r = collector_read_pids(engine->collector, engine->pids.items, engine->pids.count,
                                &readings);
    if (r == 0)
        r = sampler_observe(collector_sampler(engine->collector), readings, &root->node);
    if (r < 0)
        engine->counts.failed++;
    reading_limit_add(&engine->reading_limit, clock_mono_ns() - began_ns);
    return r;
}

/* What ended processes have used moves only into a node within theirs, which keeps it. */
static void move_ended(struct sampler *sampler, struct member *member, const struct run_node *from)
{
    sampler_move_ended(sampler, member->node, from, &member->ended);
    for (struct run_node *at = member->node; !run_node_is_within(from, at); at = at->outer)
        at->processes += member->ended.processes;
}

int engine_move_members(struct engine *engine, bool from_now)
{
    struct sampler *sampler = collector_sampler(engine->collector);
    struct member *member = NULL;
    int r = 0;

    while ((member = registry_next(engine->options.registry, member))) {
        const struct run_node *from = TAKE(member->moved_from, NULL);
        if (!from || r < 0)
            continue;
        r = sampler_move(sampler, member->node, member->pid, from_now);
        if (from_now || !run_node_is_within(member->node, from))
            member->ended = (struct ended_usage){0};
        else
            move_ended(sampler, member, from);
    }
    return r;
}

/* The parent of a process can learn of its end before its final CPU time is known. Lists the pids
 * first, because events change the registry. Without memory, some may be missing. */
static void settle_node(struct engine *engine, const struct run_node *node)
{
    uint64_t now_ns, until_ns = clock_mono_ns() + SETTLE_NS;
    const struct member *member = NULL;

    engine_drain(engine);
    engine->pids.count = 0;
    while (engine->feed && (member = registry_next(engine->options.registry, member)))
        if (!member->has_ended && run_node_is_within(member->node, node) &&
            process_lookup_is_gone(member->pid) && VEC_PUSH(&engine->pids, member->pid) < 0)
            break;
    for (size_t i = 0; i < engine->pids.count; i++) {
        now_ns = clock_mono_ns();
        lifecycle_feed_settle(engine->feed, engine->pids.items[i],
                              now_ns < until_ns ? until_ns - now_ns : 0);
    }
}

int engine_read_run(struct engine *engine, const struct run *run)
{
    uint64_t began_ns = clock_mono_ns();

    if (!reading_limit_allows(&engine->reading_limit, began_ns)) {
        engine->counts.skipped_run_readings++;
        return -EBUSY;
    }
    engine->counts.run_readings++;
    settle_node(engine, &run->node);
    reading_limit_add(&engine->reading_limit, clock_mono_ns() - began_ns);
    return engine_read_members(engine, run);
}

static bool is_covered(const struct engine *engine, const struct run_node *node)
{
    const struct member *member = NULL;

    if (!kernel_account_has_exact_ends(&engine->kernel) || !engine_saw_every_process(engine))
        return false;
    while ((member = registry_next(engine->options.registry, member)))
        if (!member->is_covered && run_node_is_within(member->node, node))
            return false;
    return true;
}

bool engine_covers(const struct engine *engine, const struct run *run)
{
    return is_covered(engine, &run->node);
}

static void fill_figures(const struct engine *engine, const struct run_sheet *step,
                         bool was_covered, struct sheet *ret)
{
    const struct run_usage *usage =
        sampler_usage(collector_sampler(engine->collector), &step->node);
    bool has_cpu = was_covered && usage && !usage->cpu_is_incomplete;
    bool has_peak = was_covered && usage && run_usage_has_peak(usage);

    ret->starts = step->starts;
    ret->processes = (int64_t)step->node.processes;
    bool saw_all = engine_saw_every_process(engine) && !step->misses_early_events &&
                   !step->node.run->misses_processes;
    ret->exactness.processes = saw_all ? EXACT : LOWER_BOUND;
    ret->exactness.cpu_seconds = has_cpu ? EXACT : LOWER_BOUND;
    ret->exactness.peak_rss_mb = has_peak ? EXACT : LOWER_BOUND;
    if (!usage)
        return;
    ret->cpu_seconds = ns_to_sec((has_cpu ? &usage->accounted : &usage->largest)->total_ns);
    if (int_is_known(usage->peak_rss_bytes) && usage->peak_rss_bytes > 0) /* 0: ended when read */
        ret->peak_rss_mb = bytes_to_mb(usage->peak_rss_bytes);
    if (!host_counts_io(PROC_ROOT))
        return;
    bool has_io = was_covered && run_usage_has_io(usage);
    const struct cpu_and_io *io = has_io ? &usage->accounted : &usage->largest;
    ret->read_bytes = (int64_t)io->read_bytes;
    ret->write_bytes = (int64_t)io->write_bytes;
    ret->exactness.read_bytes = ret->exactness.write_bytes = has_io ? EXACT : LOWER_BOUND;
}

int engine_end_step(struct engine *engine, struct run *run, int64_t sheet_num, bool was_read,
                    struct sheet *ret)
{
    struct sampler *sampler = collector_sampler(engine->collector);
    const struct run_sheet *step = run_find_sheet(run, sheet_num);
    struct run_sheet *excess;

    if (!step)
        return 0;
    bool was_covered = was_read && is_covered(engine, &step->node);
    sampler_end_step(sampler, &step->node);
    registry_end_sheet(run, sheet_num);
    fill_figures(engine, step, was_covered, ret);
    while ((excess = registry_find_excess_sheet(run))) {
        sampler_forget_step(sampler, &excess->node);
        registry_forget_sheet(run, excess);
    }
    return 1;
}
