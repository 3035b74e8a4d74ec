/* The history of each process. Pid and start time identify a process.
 *
 * A process counts as gone, and its history is dropped, when two consecutive snapshots do not have
 * it, or when its pid is reused. One snapshot is not enough, because it may miss a process that
 * could not be read. A streak, however, ends with the first snapshot that misses the process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "detect/rss-history.h"
#include "detect/rss-window.h"
#include "model/process.h"

/* A condition that holds in the current and in every snapshot since `since_ns`. */
struct streak {
    uint64_t snapshots; /* 0: it does not hold */
    uint64_t since_ns;
};

struct process_history {
    int64_t pid;
    uint64_t start_ticks;
    int64_t ppid;
    int64_t uid;
    uint64_t seen; /* number of the last snapshot that has it */
    struct streak busy;
    struct streak zombie;
    struct streak stuck;
    struct rss_window window;
    struct rss_history rss;
};

/* Zero-initialised is empty and valid. */
struct process_histories {
    struct map by_pid;
    uint64_t snapshot; /* number of the current one, from 1 */
    size_t seen;       /* processes in it */
};

void process_histories_done(struct process_histories *histories);

/* For each snapshot, call begin, then update for each process, then end. */
void process_histories_begin(struct process_histories *histories);
/* Returns the history of a process, created or updated; NULL if out of memory. Valid until the end
 * of the next snapshot. */
struct process_history *process_histories_update(struct process_histories *histories,
                                                 const struct process_metric *process,
                                                 uint64_t now_ns,
                                                 const struct detect_constants *constants);
void process_histories_end(struct process_histories *histories);

/* Returns the history of a process, or NULL if it is gone or unknown. */
struct process_history *process_histories_find(const struct process_histories *histories,
                                               int64_t pid, uint64_t start_ticks);
/* The same by pid alone. */
struct process_history *process_histories_find_pid(const struct process_histories *histories,
                                                   int64_t pid);

/* Returns whether the process is in the current snapshot. */
bool process_history_is_current(const struct process_histories *histories,
                                const struct process_history *history);

/* Continues the streak if the condition holds in the current snapshot; otherwise ends it. */
void streak_update(struct streak *streak, bool holds, uint64_t now_ns);
/* Returns whether the condition has held for `ns`. */
bool streak_has_lasted(const struct streak *streak, uint64_t now_ns, uint64_t ns);
