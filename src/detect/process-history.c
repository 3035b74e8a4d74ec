#include "detect/process-history.h"

#include <errno.h>
#include <stdlib.h>

/* Without it in so many snapshots in a row, a process is gone. */
#define GONE_SNAPSHOTS 2

static void memory_free(struct process_history *memory)
{
    rss_window_done(&memory->window);
    rss_history_done(&memory->history);
    free(memory);
}

void process_memories_done(struct process_memories *memories)
{
    size_t position = 0;

    for (struct process_history *memory; (memory = map_next(&memories->by_pid, &position));)
        memory_free(memory);
    map_done(&memories->by_pid);
}

void process_memories_begin(struct process_memories *memories)
{
    memories->snapshot++;
    memories->seen = 0;
}

static struct process_history *add(struct process_memories *memories,
                                   const struct process_metric *process, uint64_t now_ns,
                                   const struct detect_numbers *numbers)
{
    struct process_history *memory = calloc(1, sizeof(*memory));

    if (!memory || map_put(&memories->by_pid, (uint64_t)process->pid, memory) < 0) {
        free(memory);
        return NULL;
    }
    memory->pid = process->pid;
    memory->start_ticks = process->start_ticks;
    rss_window_init(&memory->window, now_ns, process->age_seconds);
    rss_history_init(&memory->history, numbers);
    return memory;
}

struct process_history *process_memories_see(struct process_memories *memories,
                                             const struct process_metric *process, uint64_t now_ns,
                                             const struct detect_numbers *numbers)
{
    struct process_history *memory = process_memories_find_pid(memories, process->pid);

    if (memory && memory->start_ticks != process->start_ticks) {
        map_remove(&memories->by_pid, (uint64_t)process->pid);
        memory_free(memory);
        memory = NULL;
    }
    if (!memory)
        memory = add(memories, process, now_ns, numbers);
    if (!memory)
        return NULL;

    if (memory->seen + 1 != memories->snapshot)
        memory->busy = memory->zombie = memory->stuck = (struct streak){0};
    memory->seen = memories->snapshot;
    memory->ppid = process->ppid;
    memory->uid = process->uid;
    memories->seen++;
    return memory;
}

void process_memories_end(struct process_memories *memories)
{
    size_t position = 0;

    if (memories->seen == memories->by_pid.count)
        return;
    for (struct process_history *memory; (memory = map_next(&memories->by_pid, &position));)
        if (memories->snapshot - memory->seen >= GONE_SNAPSHOTS) {
            map_remove(&memories->by_pid, (uint64_t)memory->pid);
            memory_free(memory);
            position--;
        }
}

struct process_history *process_memories_find_pid(const struct process_memories *memories,
                                                  int64_t pid)
{
    return map_get(&memories->by_pid, (uint64_t)pid);
}

struct process_history *process_memories_find(const struct process_memories *memories, int64_t pid,
                                              uint64_t start_ticks)
{
    struct process_history *memory = process_memories_find_pid(memories, pid);
    return memory && memory->start_ticks == start_ticks ? memory : NULL;
}

bool process_history_is_there(const struct process_memories *memories,
                              const struct process_history *memory)
{
    return memory->seen == memories->snapshot;
}

void streak_go_on(struct streak *streak, bool holds, uint64_t now_ns)
{
    if (!holds)
        streak->snapshots = 0;
    else if (streak->snapshots++ == 0)
        streak->since_ns = now_ns;
}

bool streak_has_lasted(const struct streak *streak, uint64_t now_ns, uint64_t ns)
{
    return streak->snapshots && now_ns - streak->since_ns >= ns;
}
