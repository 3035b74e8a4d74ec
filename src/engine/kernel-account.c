#include "engine/kernel-account.h"

#include <errno.h>

void kernel_account_done(struct kernel_account *account)
{
    VEC_DONE(&account->pids);
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

int kernel_account_note(struct kernel_account *account, struct member *member,
                        const struct lifecycle_event *event)
{
    struct sampler *sampler = collector_sampler(account->collector);

    if (event->kind == LIFECYCLE_FORK && !member->is_covered) {
        member->is_covered = member->was_born = true;
        return sampler_cover(sampler, member->run, event->pid, event->start_ticks, NULL);
    }
    if (event->kind != LIFECYCLE_EXIT || !member->is_covered || member->is_counted)
        return 0;
    member->is_counted = true;
    struct process_end end = {.pid = event->pid,
                              .cpu_ns = event->cpu_ns,
                              .user_ns = event->user_ns,
                              .peak_rss_bytes = event->peak_rss_bytes};
    /* Came and went before the others were counted: its parent was counted with it. */
    if (member->was_born && event->mono_ns < account->counted_at_ns)
        end.cpu_ns = end.user_ns = 0;
    return sampler_ended(sampler, member->run, &end);
}

int kernel_account_tag(struct kernel_account *account)
{
    struct member *member = NULL;
    int tagged = 0;

    account->pids.count = 0;
    while ((member = registry_next(account->registry, member))) {
        if (!member->is_covered && VEC_PUSH(&account->pids, member->pid) < 0)
            return -ENOMEM;
        if (!member->has_ended && member->tag != member->run->tag &&
            kernel_probe_tag(account->kernel, member->pid, member->run->tag) == 0)
            member->tag = member->run->tag, tagged++;
    }
    return tagged;
}

/* One that had ended by then is counted with what it had used, once and for all. */
static int count_member(struct kernel_account *account, const struct process_reading *reading)
{
    struct sampler *sampler = collector_sampler(account->collector);
    struct member *member = registry_find(account->registry, reading->pid);

    if (!member || member->is_covered)
        return 0;
    int r = sampler_cover(sampler, member->run, reading->pid, reading->start_ticks, reading);
    if (r < 0)
        return r;
    member->is_covered = true;
    if (!reading->is_ending && reading->state != 'Z')
        return 0;
    member->is_counted = true;
    return sampler_ended(sampler, member->run,
                         &(struct process_end){.pid = reading->pid,
                                               .cpu_ns = reading->cpu_ns,
                                               .user_ns = reading->user_ns,
                                               .peak_rss_bytes = reading->peak_rss_bytes});
}

void kernel_account_cover(struct kernel_account *account)
{
    const struct readings *readings;

    if (!kernel_account_has_events(account) || kernel_account_tag(account) < 0 ||
        !account->pids.count || !kernel_account_has_exact_ends(account) ||
        collector_look_at(account->collector, account->pids.items, account->pids.count, &readings) <
            0)
        return;
    account->counted_at_ns = readings->moment.mono_ns;
    for (size_t i = 0; i < readings->count; i++)
        if (count_member(account, &readings->items[i]) < 0)
            return;
    sampler_absorb_gone(collector_sampler(account->collector));
}
