#include "trace/traced-processes.h"

#include <stdlib.h>

static void free_process(struct traced_process *process)
{
    syscall_profile_done(&process->calls);
    free(process);
}

void traced_processes_done(struct traced_processes *processes)
{
    size_t position = 0;

    for (struct traced_process *process; (process = map_next(&processes->processes, &position));)
        free_process(process);
    map_done(&processes->processes);
}

static struct traced_process *get_process(struct traced_processes *processes, pid_t pid)
{
    struct traced_process *process = map_get(&processes->processes, (uint64_t)pid);
    if (process)
        return process;

    process = calloc(1, sizeof(*process));
    if (process && map_put(&processes->processes, (uint64_t)pid, process) < 0) {
        free(process);
        return NULL;
    }
    if (process)
        process->pid = pid;
    return process;
}

void traced_processes_add(struct traced_processes *processes, pid_t pid, uint64_t start_ticks,
                          const struct syscall_profile *calls, uint64_t now_ns)
{
    struct traced_process *process = get_process(processes, pid);

    if (!process)
        return;
    if (process->start_ticks != start_ticks)
        syscall_profile_clear(&process->calls);
    process->start_ticks = start_ticks;
    process->reported_ns = now_ns;
    process->is_shown = false;
    process->seen = processes->snapshots;
    syscall_profile_add_all(&process->calls, calls);
}

const struct traced_process *traced_processes_find(const struct traced_processes *processes,
                                                   pid_t pid)
{
    return map_get(&processes->processes, (uint64_t)pid);
}

static int fill_row(struct traced_processes *processes, struct process_metric *metric,
                    struct arena *arena)
{
    struct traced_process *process = map_get(&processes->processes, (uint64_t)metric->pid);

    if (!process || process->start_ticks != metric->start_ticks)
        return 0;
    process->seen = processes->snapshots;
    if (process->is_shown)
        return 0;
    struct tally_list shares = metric->syscall_time_pct, counts = metric->syscall_counts;
    int r = syscall_profile_shares(&process->calls, SYSCALL_SHARE_EXACT, arena, &shares);
    if (r == 0)
        r = syscall_profile_list(&process->calls, SYSCALL_COUNTS, arena, &counts);
    if (r < 0)
        return r;
    metric->syscall_source = SYSCALLS_STRACE;
    metric->syscall_time_pct = shares;
    metric->syscall_counts = counts;
    process->is_shown = true;
    return 0;
}

/* Drops processes that are no longer in the snapshots. */
static void drop_gone(struct traced_processes *processes)
{
    size_t position = 0;

    for (struct traced_process *process; (process = map_next(&processes->processes, &position));) {
        if (process->seen == processes->snapshots)
            continue;
        map_remove(&processes->processes, (uint64_t)process->pid);
        free_process(process);
        position--; /* another may have moved into its place */
    }
}

int traced_processes_fill(struct traced_processes *processes, struct snapshot *snapshot)
{
    int r = 0;

    if (!processes->processes.count)
        return 0;
    processes->snapshots++;
    for (size_t i = 0; i < snapshot->processes.count && r == 0; i++)
        r = fill_row(processes, &snapshot->processes.items[i], &snapshot->arena);
    /* After an error, rows that were not reached would look like processes that are gone. */
    if (r == 0)
        drop_gone(processes);
    return r;
}
