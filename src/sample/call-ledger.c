#include "sample/call-ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"

/* A sample represents at most this many intervals: after missed ticks, nothing is known about the
 * time in between. */
#define INTERVALS_MAX 2

/* A live process. */
struct process_calls {
    pid_t pid;
    uint64_t start_ticks; /* 0: not known */
    const struct run *run;
    bool is_counted;
    unsigned generation;
    struct syscall_profile profile;
};

/* The sums of a run: of its ended processes if it is counted, of all if it is sampled. */
struct run_calls {
    bool is_counted;
    bool is_from_start;
    bool is_incomplete; /* some counts were lost */
    uint64_t lost_before;
    struct syscall_profile profile;
};

/* ---- entries ---- */

static struct process_calls *find_process(const struct call_ledger *ledger, pid_t pid)
{
    return map_get(&ledger->processes, (uint64_t)pid);
}

static struct run_calls *find_run(const struct call_ledger *ledger, const struct run *run)
{
    return map_get(&ledger->runs, (uint64_t)(uintptr_t)run);
}

static void free_process(struct process_calls *process)
{
    if (process)
        syscall_profile_done(&process->profile);
    free(process);
}

static void free_run(struct run_calls *run)
{
    if (run)
        syscall_profile_done(&run->profile);
    free(run);
}

void call_ledger_done(struct call_ledger *ledger)
{
    size_t position = 0;

    for (struct process_calls *process; (process = map_next(&ledger->processes, &position));)
        free_process(process);
    position = 0;
    for (struct run_calls *run; (run = map_next(&ledger->runs, &position));)
        free_run(run);
    map_done(&ledger->processes);
    map_done(&ledger->runs);
}

/* Resets the entry if the pid belongs to a new process. Returns NULL without memory. */
static struct process_calls *get_process(struct call_ledger *ledger, const struct member *member,
                                         bool is_counted)
{
    struct process_calls *process = find_process(ledger, member->pid);

    if (!process) {
        process = calloc(1, sizeof(*process));
        if (!process || map_put(&ledger->processes, (uint64_t)member->pid, process) < 0) {
            free(process);
            return NULL;
        }
        process->pid = member->pid;
    }
    if (process->start_ticks != member->start_ticks || process->is_counted != is_counted) {
        if (process->start_ticks || process->is_counted != is_counted)
            syscall_profile_clear(&process->profile);
        process->start_ticks = member->start_ticks;
        process->is_counted = is_counted;
    }
    process->run = member->run;
    return process;
}

static struct run_calls *get_run(struct call_ledger *ledger, const struct run *run)
{
    struct run_calls *calls = find_run(ledger, run);
    if (calls)
        return calls;

    calls = calloc(1, sizeof(*calls));
    if (calls && map_put(&ledger->runs, (uint64_t)(uintptr_t)run, calls) < 0) {
        free(calls);
        return NULL;
    }
    return calls;
}

/* ---- which runs are counted ---- */

int call_ledger_start_counting(struct call_ledger *ledger, const struct run *run,
                               bool is_from_start)
{
    struct run_calls *calls = get_run(ledger, run);
    if (!calls)
        return -ENOMEM;
    if (calls->is_counted)
        return 0;

    syscall_profile_clear(&calls->profile); /* samples and counts cannot be added */
    calls->is_counted = true;
    calls->is_from_start = is_from_start;
    calls->lost_before = ledger->lost_calls;
    return 0;
}

bool call_ledger_is_counted(const struct call_ledger *ledger, const struct run *run)
{
    const struct run_calls *calls = find_run(ledger, run);

    return calls && calls->is_counted;
}

bool call_ledger_is_any_counted(const struct call_ledger *ledger, const struct run *run)
{
    for (; run; run = run->parent)
        if (call_ledger_is_counted(ledger, run))
            return true;
    return false;
}

bool call_ledger_needs_samples(const struct call_ledger *ledger, const struct run *run)
{
    for (; run; run = run->parent)
        if (!call_ledger_is_counted(ledger, run))
            return true;
    return false;
}

size_t call_ledger_counted_runs(const struct call_ledger *ledger)
{
    size_t position = 0, count = 0;

    for (const struct run_calls *run; (run = map_next(&ledger->runs, &position));)
        count += run->is_counted;
    return count;
}

void call_ledger_end_run(struct call_ledger *ledger, const struct run *run)
{
    size_t position = 0;

    for (struct process_calls *process; (process = map_next(&ledger->processes, &position));)
        if (process->run == run) {
            map_remove(&ledger->processes, (uint64_t)process->pid);
            free_process(process);
            position--; /* another may have moved into its place */
        }
    free_run(map_remove(&ledger->runs, (uint64_t)(uintptr_t)run));
}

/* ---- ticks ---- */

void call_ledger_begin(struct call_ledger *ledger, const struct moment *now, uint64_t interval_ns)
{
    uint64_t since_ns = ledger->now.mono_ns ? now->mono_ns - ledger->now.mono_ns : interval_ns;

    ledger->since_ns = MIN(since_ns, INTERVALS_MAX * interval_ns);
    ledger->now = *now;
    ledger->generation++;
}

/* The time that a sample of this process represents: at most its age. */
static uint64_t sample_ns(const struct call_ledger *ledger, const struct member *member)
{
    uint64_t ns_per_tick = NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t born_ns = member->start_ticks * ns_per_tick;

    if (!member->start_ticks || born_ns > ledger->now.boot_ns)
        return ledger->since_ns;
    return MIN(ledger->since_ns, ledger->now.boot_ns - born_ns + ns_per_tick);
}

/* The part of `ns` that the thread spent in the call. */
static uint64_t time_in_call(const struct thread_call *call, uint64_t ns)
{
    uint64_t cpu_ns = call->user_ns + call->system_ns;

    if (!call->is_on_cpu)
        return ns;
    return cpu_ns ? (uint64_t)((double)ns * (double)call->system_ns / (double)cpu_ns) : 0;
}

int call_ledger_add_sample(struct call_ledger *ledger, const struct member *member,
                           const struct thread_call *call)
{
    bool is_counted = call_ledger_is_any_counted(ledger, member->run);
    /* A counted process has exact sums instead. */
    struct process_calls *process = is_counted ? NULL : get_process(ledger, member, false);
    struct syscall_sum sum = {.call = call->call};
    int r = 0;

    if (!is_counted && !process)
        return -ENOMEM;
    if (process)
        process->generation = ledger->generation;
    /* restart_syscall continues an interrupted call, which is unknown. */
    if (call->call != SYSCALL_NONE && call->call != SYS_restart_syscall)
        sum.ns = time_in_call(call, sample_ns(ledger, member));
    if (!sum.ns)
        return 0;
    if (process)
        r = syscall_profile_add(&process->profile, &sum);
    for (const struct run *run = member->run; run && r == 0; run = run->parent) {
        struct run_calls *calls = get_run(ledger, run);
        if (!calls)
            return -ENOMEM;
        if (!calls->is_counted)
            r = syscall_profile_add(&calls->profile, &sum);
    }
    return r;
}

int call_ledger_add_sum(struct call_ledger *ledger, const struct member *member,
                        const struct syscall_sum *sum)
{
    struct process_calls *process = get_process(ledger, member, true);
    if (!process)
        return -ENOMEM;

    if (process->generation != ledger->generation) /* the first of this tick */
        syscall_profile_clear(&process->profile);
    process->generation = ledger->generation;
    return syscall_profile_add(&process->profile, sum);
}

/* Drops sampled processes that were not seen. Counted ones stay until their exit is reported. */
void call_ledger_end(struct call_ledger *ledger, uint64_t lost_calls)
{
    size_t position = 0;

    ledger->lost_calls = lost_calls;
    for (struct process_calls *process; (process = map_next(&ledger->processes, &position));)
        if (process->generation != ledger->generation && !process->is_counted) {
            map_remove(&ledger->processes, (uint64_t)process->pid);
            free_process(process);
            position--; /* another may have moved into its place */
        }
}

/* ---- ends ---- */

int call_ledger_ended(struct call_ledger *ledger, const struct member *member,
                      const struct syscall_profile *calls)
{
    struct process_calls *process =
        map_remove(&ledger->processes, (uint64_t)member->pid); /* NULL: it was never seen */
    bool is_last_known = !calls && process && process->is_counted;
    const struct syscall_profile *profile = calls           ? calls
                                            : is_last_known ? &process->profile
                                                            : NULL;
    int r = 0;

    for (const struct run *run = member->run; run && profile; run = run->parent) {
        struct run_calls *sums = find_run(ledger, run);
        if (!sums || !sums->is_counted)
            continue;
        int added = syscall_profile_add_all(&sums->profile, profile);
        sums->is_incomplete |= is_last_known || added < 0;
        r = r < 0 ? r : added;
    }
    free_process(process);
    return r;
}

/* ---- results ---- */

int call_ledger_fill_process(const struct call_ledger *ledger, struct arena *arena,
                             struct process_metric *metric)
{
    const struct process_calls *process = find_process(ledger, (pid_t)metric->pid);

    if (!process || process->start_ticks != metric->start_ticks ||
        syscall_profile_is_empty(&process->profile))
        return 0;
    metric->syscall_source = process->is_counted ? SYSCALLS_BPF : SYSCALLS_SAMPLED;
    int r = syscall_profile_shares(
        &process->profile, process->is_counted ? SYSCALL_SHARE_EXACT : SYSCALL_SHARE_SAMPLED, arena,
        &metric->syscall_time_pct);
    if (r == 0 && process->is_counted)
        r = syscall_profile_list(&process->profile, SYSCALL_COUNTS, arena, &metric->syscall_counts);
    return r;
}

/* Adds the live processes of a counted run and of the runs started in it. */
static int add_living(const struct call_ledger *ledger, const struct run *run,
                      struct syscall_profile *into)
{
    size_t position = 0;
    int r = 0;

    for (const struct process_calls *process;
         r == 0 && (process = map_next(&ledger->processes, &position));)
        if (process->is_counted && run_is_within(process->run, run))
            r = syscall_profile_add_all(into, &process->profile);
    return r;
}

static int exactness_of(const struct call_ledger *ledger, const struct run_calls *calls)
{
    if (!calls->is_counted)
        return SAMPLED;
    return calls->is_from_start && !calls->is_incomplete && calls->lost_before == ledger->lost_calls
               ? EXACT
               : LOWER_BOUND;
}

int call_ledger_fill_run(const struct call_ledger *ledger, const struct run *run,
                         struct arena *arena, struct run_syscalls *ret)
{
    const struct run_calls *calls = find_run(ledger, run);
    struct syscall_profile all = {0};

    *ret = (struct run_syscalls){0};
    if (!calls)
        return 0;
    int r = syscall_profile_add_all(&all, &calls->profile);
    if (r == 0 && calls->is_counted)
        r = add_living(ledger, run, &all);
    if (r == 0)
        r = syscall_profile_fill_run(&all, calls->is_counted ? SYSCALLS_BPF : SYSCALLS_SAMPLED,
                                     exactness_of(ledger, calls), arena, ret);
    syscall_profile_done(&all);
    return r;
}
