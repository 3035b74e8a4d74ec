#include "sample/kernel-account.h"

#include <errno.h>
#include <unistd.h>

#include "base/macros.h"
#include "model/field.h"

void kernel_account_done(struct kernel_account *account)
{
    VEC_DONE(&account->pids);
    VEC_DONE(&account->restless);
}

bool kernel_account_has_events(const struct kernel_account *account)
{
    return account->kernel && kernel_probe_has(account->kernel, KERNEL_PART_EVENTS);
}

bool kernel_account_has_exact_ends(const struct kernel_account *account)
{
    return kernel_account_has_events(account) &&
           kernel_probe_has(account->kernel, KERNEL_PART_FINAL_CPU);
}

/* Adds the end of a covered member, and keeps its usage with the member. */
static int add_end(const struct kernel_account *account, struct member *member,
                   const struct process_end *end)
{
    struct ended_usage *ended = &member->ended;

    member->is_counted = true;
    ended->peak_rss_bytes = MAX(ended->peak_rss_bytes, end->peak_rss_bytes);
    ended->is_incomplete |= !member->is_covered_from_birth || !int_is_known(end->cpu_ns);
    if (int_is_known(end->cpu_ns)) {
        uint64_t cpu_ns = (uint64_t)end->cpu_ns;
        uint64_t user_ns = int_is_known(end->user_ns) ? MIN((uint64_t)end->user_ns, cpu_ns) : 0;
        ended->cpu_ns += cpu_ns;
        ended->user_ns += user_ns;
        ended->system_ns += cpu_ns - user_ns;
        ended->read_bytes += (uint64_t)MAX(end->read_bytes, (int64_t)0);
        ended->write_bytes += (uint64_t)MAX(end->write_bytes, (int64_t)0);
    }
    return sampler_ended(collector_sampler(account->collector), member->node, end);
}

/* Returns the node that gets the time of a process that is not covered, NULL if none does. The
 * connector does not report the parent: that is the process that forked it, or one that adopted it.
 * Orphans are adopted within the run if sonde is a subreaper for it. */
static const struct run_node *find_reaper_node(const struct kernel_account *account,
                                               const struct member *member, pid_t ppid)
{
    const struct member *parent = registry_find(account->registry, ppid ? ppid : member->ppid);

    if (parent)
        return parent->node;
    return !ppid && registry_is_foster(account->registry, getpid()) ? &member->run->node : NULL;
}

/* The end of a process that is not covered: its time moves to its parent, which may belong to
 * another node. sonde's own children are counted when sonde reaps them. */
static void note_uncovered_end(const struct kernel_account *account, struct member *member,
                               const struct lifecycle_event *event)
{
    struct sampler *sampler = collector_sampler(account->collector);

    sampler_raise_peak(sampler, member->node, event->peak_rss_bytes);
    member->ended.peak_rss_bytes = MAX(member->ended.peak_rss_bytes, event->peak_rss_bytes);
    member->ended.is_incomplete = true;
    if (event->ppid != getpid())
        sampler_miss_end(sampler, member->node, find_reaper_node(account, member, event->ppid));
}

/* What was in the memory of the parent is part of the parent's peak, wherever that counts. */
static void note_missing_peak(const struct kernel_account *account, struct member *member,
                              int64_t most_bytes)
{
    const struct member *parent =
        member->is_covered_from_birth ? registry_find(account->registry, member->ppid) : NULL;

    member->ended.missing_peak_bytes = MAX(member->ended.missing_peak_bytes, most_bytes);
    sampler_miss_peak(collector_sampler(account->collector), member->node,
                      parent ? parent->node : NULL, most_bytes);
}

int kernel_account_add_event(struct kernel_account *account, struct member *member,
                             const struct lifecycle_event *event)
{
    struct sampler *sampler = collector_sampler(account->collector);

    if (event->kind == LIFECYCLE_FORK && !member->is_covered) {
        const struct member *parent = registry_find(account->registry, event->ppid);
        if (parent && !parent->is_covered)
            return 0;
        member->is_covered = member->is_covered_from_birth = true;
        return sampler_cover(sampler, member->node, event->pid, event->start_ticks, NULL);
    }
    if (event->kind == LIFECYCLE_EXEC) {
        sampler_raise_peak(sampler, member->node, event->peak_rss_bytes);
        member->ended.peak_rss_bytes = MAX(member->ended.peak_rss_bytes, event->peak_rss_bytes);
    }
    /* wait4() of `sonde run`, which is the foster, includes the peaks before all execs. */
    if (event->kind == LIFECYCLE_EXEC && !member->is_covered_from_birth &&
        !int_is_known(event->peak_rss_bytes) && !registry_is_foster(account->registry, getpid()))
        note_missing_peak(account, member, INT64_MAX);
    if (event->missing_peak_bytes)
        note_missing_peak(account, member, event->missing_peak_bytes);
    if (event->kind == LIFECYCLE_EXIT && !member->is_covered)
        note_uncovered_end(account, member, event);
    if (event->kind != LIFECYCLE_EXIT || !member->is_covered || member->is_counted)
        return 0;
    const struct process_end end = {.pid = event->pid,
                                    .cpu_ns = event->cpu_ns,
                                    .user_ns = event->user_ns,
                                    .peak_rss_bytes = event->peak_rss_bytes,
                                    .read_bytes = event->read_bytes,
                                    .write_bytes = event->write_bytes};
    return add_end(account, member, &end);
}

int kernel_account_tag(struct kernel_account *account)
{
    struct member *member = NULL;
    int tagged = 0;

    while ((member = registry_next(account->registry, member)))
        if (!member->has_ended && member->tag != member->node->tag &&
            kernel_probe_tag(account->kernel, member->pid, member->node->tag) == 0)
            member->tag = member->node->tag, tagged++;
    return tagged;
}

/* ---- calm runs ---- */

static bool is_restless(const struct kernel_account *account, const struct run *run)
{
    const struct run *outer = run_outermost(run);

    for (size_t i = 0; i < account->restless.count; i++)
        if (account->restless.items[i] == outer)
            return true;
    return false;
}

static int mark_restless(struct kernel_account *account, const struct run *run)
{
    return is_restless(account, run) ? 0 : VEC_PUSH(&account->restless, run_outermost(run));
}

/* Returns the member that was read; NULL if it is covered, or if its pid was reused. */
static struct member *find_uncovered(const struct kernel_account *account,
                                     const struct process_reading *reading)
{
    struct member *member = registry_find(account->registry, reading->pid);

    if (!member || member->is_covered ||
        (member->start_ticks && member->start_ticks != reading->start_ticks))
        return NULL;
    return member;
}

/* Records the time that the process has reaped and, if it has ended, used itself. Returns whether
 * that is the same as in the previous reading. */
static bool is_unchanged(const struct kernel_account *account, struct member *member,
                         const struct process_reading *reading)
{
    int64_t now_ns = reading->reaped_user_ns + reading->reaped_system_ns +
                     (reading->state == 'Z' ? reading->cpu_ns : 0);
    bool is_same = member->cover_check == account->readings - 1 && member->cover_check_ns == now_ns;

    member->cover_check = account->readings;
    member->cover_check_ns = now_ns;
    return is_same;
}

static int find_restless(struct kernel_account *account, const struct readings *readings)
{
    struct member *member = NULL;
    int r = 0;

    account->readings++;
    account->restless.count = 0;
    for (size_t i = 0; i < readings->count && r == 0; i++) {
        const struct process_reading *reading = &readings->items[i];
        member = find_uncovered(account, reading);
        /* The end of a living process is reported if it is tagged and not ending. What an ending
         * process used is not known before it is a zombie. */
        if (member &&
            (!is_unchanged(account, member, reading) ||
             (reading->state != 'Z' && (reading->is_ending || member->tag != member->node->tag))))
            r = mark_restless(account, member->run);
    }
    member = NULL;
    while (r == 0 && (member = registry_next(account->registry, member)))
        if (!member->is_covered && member->cover_check == account->readings - 1) /* and is gone */
            r = mark_restless(account, member->run);
    return r;
}

/* ---- covering ---- */

void kernel_account_begin(struct kernel_account *account)
{
    account->readings += 2; /* so that no reading is the previous one of the next */
}

static int cover_calm(struct kernel_account *account, const struct readings *readings)
{
    struct sampler *sampler = collector_sampler(account->collector);

    for (size_t i = 0; i < readings->count; i++) {
        const struct process_reading *reading = &readings->items[i];
        struct member *member = find_uncovered(account, reading);

        if (!member || is_restless(account, member->run))
            continue;
        int r = sampler_cover(sampler, member->node, reading->pid, reading->start_ticks, reading);
        if (r < 0)
            return r;
        member->is_covered = true;
    }
    return 0;
}

void kernel_account_await_ends(struct kernel_account *account)
{
    const struct member *member = NULL;

    while (account->kernel && (member = registry_next(account->registry, member)))
        if (member->is_covered && !member->is_counted &&
            kernel_probe_awaits_end(account->kernel, member->pid))
            sampler_await_end(collector_sampler(account->collector), member->pid);
}

/* ---- parents that are registered late ---- */

/* Clears `awaits_parent_cover` of runs if all processes of the runs that they were started in are
 * covered. */
static void check_late_parents(struct kernel_account *account)
{
    const struct member *member = NULL;
    const struct run *above;
    struct run *run = NULL;
    bool is_awaited = false;

    while ((run = registry_next_run(account->registry, run))) {
        run->has_uncovered = false;
        is_awaited |= run->awaits_parent_cover;
    }
    while (is_awaited && (member = registry_next(account->registry, member)))
        if (!member->is_covered)
            member->run->has_uncovered = true;
    while (is_awaited && (run = registry_next_run(account->registry, run))) {
        for (above = run->parent; above && !above->has_uncovered;)
            above = above->parent;
        if (!above)
            run->awaits_parent_cover = false;
    }
}

int kernel_account_set_parent(struct kernel_account *account, struct run *run,
                              struct run_node *parent)
{
    int r = sampler_set_outer(collector_sampler(account->collector), &run->node, parent);
    if (r < 0)
        return r;

    registry_set_parent(run, parent);
    run->awaits_parent_cover = true;
    check_late_parents(account);
    return 0;
}

/* ---- readings of uncovered members ---- */

/* Adds the usage of zombies to their runs, once. */
static int count_ended(struct kernel_account *account, const struct readings *readings)
{
    for (size_t i = 0; i < readings->count; i++) {
        const struct process_reading *reading = &readings->items[i];
        struct member *member = registry_find(account->registry, reading->pid);

        if (!member || !member->is_covered || member->is_counted || reading->state != 'Z')
            continue;
        const struct process_end end = {.pid = reading->pid,
                                        .cpu_ns = reading->cpu_ns,
                                        .user_ns = reading->user_ns,
                                        .peak_rss_bytes = reading->peak_rss_bytes,
                                        .read_bytes = reading->read_bytes,
                                        .write_bytes = reading->write_bytes};
        int r = add_end(account, member, &end);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Processes that are gone are absorbed while all that could have reaped them exist. */
int kernel_account_add_readings(struct kernel_account *account, const struct readings *readings)
{
    int r = find_restless(account, readings);
    if (r == 0)
        r = cover_calm(account, readings);
    if (r < 0)
        return r;
    check_late_parents(account);
    sampler_absorb_gone(collector_sampler(account->collector));
    r = count_ended(account, readings);
    return r < 0 ? r : !account->restless.count;
}

int kernel_account_cover(struct kernel_account *account)
{
    const struct member *member = NULL;
    const struct readings *readings;

    if (!kernel_account_has_events(account))
        return 1;
    int r = kernel_account_tag(account);
    account->pids.count = 0;
    while (r >= 0 && (member = registry_next(account->registry, member)))
        if (!member->is_covered)
            r = VEC_PUSH(&account->pids, member->pid);
    if (r >= 0 && !account->pids.count)
        check_late_parents(account); /* the last uncovered one is gone */
    /* /proc does not show which processes are ending, and rounds reaped time to clock ticks. */
    if (r < 0 || !account->pids.count || !kernel_account_has_exact_ends(account) ||
        !kernel_probe_has(account->kernel, KERNEL_PART_PROCESSES))
        return r < 0 ? r : 1;
    r = collector_read_pids(account->collector, account->pids.items, account->pids.count,
                            &readings);
    return r < 0 ? r : kernel_account_add_readings(account, readings);
}
