#include "sample/syscall-account.h"

#include <errno.h>

#include "base/clock.h"
#include "probe/proc-syscall.h"

void syscall_account_done(struct syscall_account *account)
{
    if (account->kernel)
        kernel_probe_count_calls(account->kernel, false);
    call_ledger_done(&account->ledger);
    VEC_DONE(&account->pids);
}

static bool can_count(const struct syscall_account *account)
{
    return account->kernel && kernel_probe_has(account->kernel, KERNEL_PART_CALL_COUNTS);
}

/* ---- counting ---- */

int syscall_account_start_counting(struct syscall_account *account, const struct run *run,
                                   bool is_from_start)
{
    if (!can_count(account))
        return -EOPNOTSUPP;
    int r = kernel_probe_count_calls(account->kernel, true);
    if (r == 0)
        r = call_ledger_start_counting(&account->ledger, run, is_from_start);
    if (r == 0)
        syscall_account_catch_up(account);
    return r;
}

/* Starts counting the calls of members that are not counted yet, such as forks of members that were
 * not counted. */
static void count_members(struct syscall_account *account)
{
    struct member *member = NULL;

    while ((member = registry_next(account->registry, member))) {
        if (member->calls_since_ns || member->has_ended ||
            !call_ledger_is_any_counted(&account->ledger, member->run))
            continue;
        if (kernel_probe_count_calls_of(account->kernel, member->pid, COUNT_FROM_NOW) == 0)
            member->calls_since_ns = clock_mono_ns();
    }
}

void syscall_account_catch_up(struct syscall_account *account)
{
    const struct run *run = NULL;

    if (!can_count(account))
        return;
    while (account->choice == SYSCALLS_CHOICE_BPF &&
           (run = registry_next_run(account->registry, run)))
        if (!call_ledger_is_counted(&account->ledger, run) &&
            kernel_probe_count_calls(account->kernel, true) == 0)
            call_ledger_start_counting(&account->ledger, run,
                                       false); /* on failure, again next tick */
    if (call_ledger_counted_runs(&account->ledger))
        count_members(account);
}

void syscall_account_end_run(struct syscall_account *account, const struct run *run)
{
    bool was_counted = call_ledger_is_counted(&account->ledger, run);
    struct member *member = NULL;

    call_ledger_end_run(&account->ledger, run);
    if (!was_counted)
        return;
    if (!call_ledger_counted_runs(&account->ledger)) {
        kernel_probe_count_calls(account->kernel, false);
        while ((member = registry_next(account->registry, member)))
            member->calls_since_ns = 0;
        return;
    }
    while ((member = registry_next(account->registry, member)))
        if (member->run == run && member->calls_since_ns &&
            !call_ledger_is_any_counted(&account->ledger, run->parent)) {
            kernel_probe_stop_counting_calls_of(account->kernel, member->pid);
            member->calls_since_ns = 0;
        }
}

/* ---- events ---- */

int syscall_account_add_event(struct syscall_account *account, struct member *member,
                              const struct lifecycle_event *event)
{
    const struct member *parent = registry_find(account->registry, event->ppid);

    /* The kernel counts a child if it counted its parent at the fork. */
    if (event->kind == LIFECYCLE_FORK && !member->calls_since_ns && parent &&
        parent->calls_since_ns && parent->calls_since_ns < event->mono_ns)
        member->calls_since_ns = event->mono_ns;
    return event->kind == LIFECYCLE_EXIT ? call_ledger_ended(&account->ledger, member, event->calls)
                                         : 0;
}

/* ---- ticks ---- */

static void on_thread(void *context, const struct thread_call *call)
{
    struct syscall_account *account = context;
    const struct member *member = registry_find(account->registry, call->pid);
    int r = member ? call_ledger_add_sample(&account->ledger, member, call) : 0;

    account->error = account->error ? account->error : r;
}

static void on_sum(void *context, pid_t pid, const struct syscall_sum *sum)
{
    struct syscall_account *account = context;
    const struct member *member = registry_find(account->registry, pid);
    int r = member && !member->has_ended ? call_ledger_add_sum(&account->ledger, member, sum) : 0;

    account->error = account->error ? account->error : r;
}

static int sample(struct syscall_account *account)
{
    const struct member *member = NULL;

    account->pids.count = 0;
    while ((member = registry_next(account->registry, member)))
        if (!member->has_ended && call_ledger_needs_samples(&account->ledger, member->run) &&
            VEC_PUSH(&account->pids, member->pid) < 0)
            return -ENOMEM;
    if (!account->pids.count)
        return 0;
    if (account->kernel && kernel_probe_has(account->kernel, KERNEL_PART_CALL_SAMPLES))
        return kernel_probe_sample_calls(account->kernel, account->pids.items, account->pids.count,
                                         on_thread, account);
    int r = proc_syscall_sample(account->proc_fd, account->pids.items, account->pids.count,
                                on_thread, account);
    /* Without permission, or on a kernel without the file, the calls are unknown. */
    return r == -EACCES || r == -EOPNOTSUPP ? 0 : r;
}

int syscall_account_fill(struct syscall_account *account, const struct moment *now,
                         uint64_t interval_ns, struct snapshot *snapshot)
{
    if (!registry_count(account->registry))
        return 0;
    account->error = 0;
    syscall_account_catch_up(account);
    call_ledger_begin(&account->ledger, now, interval_ns);
    bool is_sampled =
        account->choice != SYSCALLS_CHOICE_OFF && account->choice != SYSCALLS_CHOICE_STRACE;
    int r = is_sampled ? sample(account) : 0;
    if (r == 0 && call_ledger_counted_runs(&account->ledger))
        r = kernel_probe_read_calls(account->kernel, on_sum, account);
    call_ledger_end(
        &account->ledger,
        can_count(account) ? kernel_probe_lost_calls(account->kernel) + account->lost_batches : 0);
    if (r == 0)
        r = account->error;
    for (size_t i = 0; i < snapshot->processes.count && r == 0; i++)
        if (snapshot->processes.items[i].run_id)
            r = call_ledger_fill_process(&account->ledger, &snapshot->arena,
                                         &snapshot->processes.items[i]);
    return r;
}
