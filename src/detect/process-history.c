#include "detect/process-history.h"

#include <errno.h>
#include <stdlib.h>

/* A process that is missing in this many consecutive snapshots is gone. */
#define GONE_SNAPSHOTS 2

static void process_history_free(struct process_history *history)
{
    rss_window_done(&history->window);
    rss_history_done(&history->rss);
    free(history);
}

void process_histories_done(struct process_histories *histories)
{
    size_t position = 0;

    for (struct process_history *history; (history = map_next(&histories->by_pid, &position));)
        process_history_free(history);
    map_done(&histories->by_pid);
}

void process_histories_begin(struct process_histories *histories)
{
    histories->snapshot++;
    histories->seen = 0;
}

static struct process_history *add_history(struct process_histories *histories,
                                           const struct process_metric *process, uint64_t now_ns,
                                           const struct detect_constants *constants)
{
    struct process_history *history = calloc(1, sizeof(*history));

    if (!history || map_put(&histories->by_pid, (uint64_t)process->pid, history) < 0) {
        free(history);
        return NULL;
    }
    history->pid = process->pid;
    history->start_ticks = process->start_ticks;
    rss_window_init(&history->window, now_ns, process->age_seconds);
    rss_history_init(&history->rss, constants);
    return history;
}

struct process_history *process_histories_update(struct process_histories *histories,
                                                 const struct process_metric *process,
                                                 uint64_t now_ns,
                                                 const struct detect_constants *constants)
{
    struct process_history *history = process_histories_find_pid(histories, process->pid);

    if (history && history->start_ticks != process->start_ticks) {
        map_remove(&histories->by_pid, (uint64_t)process->pid);
        process_history_free(history);
        history = NULL;
    }
    if (!history)
        history = add_history(histories, process, now_ns, constants);
    if (!history)
        return NULL;

    if (history->seen + 1 != histories->snapshot)
        history->busy = history->zombie = history->stuck = (struct streak){0};
    history->seen = histories->snapshot;
    history->ppid = process->ppid;
    history->uid = process->uid;
    histories->seen++;
    return history;
}

void process_histories_end(struct process_histories *histories)
{
    size_t position = 0;

    if (histories->seen == histories->by_pid.count)
        return;
    for (struct process_history *history; (history = map_next(&histories->by_pid, &position));)
        if (histories->snapshot - history->seen >= GONE_SNAPSHOTS) {
            map_remove(&histories->by_pid, (uint64_t)history->pid);
            process_history_free(history);
            position--;
        }
}

struct process_history *process_histories_find_pid(const struct process_histories *histories,
                                                   int64_t pid)
{
    return map_get(&histories->by_pid, (uint64_t)pid);
}

struct process_history *process_histories_find(const struct process_histories *histories,
                                               int64_t pid, uint64_t start_ticks)
{
    struct process_history *history = process_histories_find_pid(histories, pid);
    return history && history->start_ticks == start_ticks ? history : NULL;
}

bool process_history_is_current(const struct process_histories *histories,
                                const struct process_history *history)
{
    return history->seen == histories->snapshot;
}

void streak_update(struct streak *streak, bool holds, uint64_t now_ns)
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
