/* What is remembered of each process, by its identity: pid and start.
 *
 * A process is gone, and forgotten, when two snapshots in a row are without it, or when its pid is
 * another's: a single snapshot may miss one that could not be read just then. But what has to hold
 * in snapshots in a row (a streak) is broken by one that misses it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "detect/rss-history.h"
#include "detect/rss-window.h"
#include "model/process.h"

/* Something that has held in the current and in every earlier snapshot since `since_ns`. */
struct streak {
    uint64_t snapshots; /* 0: it does not hold */
    uint64_t since_ns;
};

struct process_history {
    int64_t pid;
    uint64_t start_ticks;
    int64_t ppid;
    int64_t uid;
    uint64_t seen; /* number of the last snapshot with it */
    struct streak busy;
    struct streak zombie;
    struct streak stuck;
    struct rss_window window;
    struct rss_history history;
};

/* Zero-initialised is empty and valid. */
struct process_memories {
    struct map by_pid;
    uint64_t snapshot; /* number of the current one, from 1 */
    size_t seen;       /* processes in it */
};

void process_memories_done(struct process_memories *memories);

/* A snapshot: begin, see each of its processes, end. */
void process_memories_begin(struct process_memories *memories);
/* NULL if there is no memory for a new one. Valid until the end of the next snapshot. */
struct process_history *process_memories_see(struct process_memories *memories,
                                             const struct process_metric *process, uint64_t now_ns,
                                             const struct detect_numbers *numbers);
void process_memories_end(struct process_memories *memories);

/* NULL: it is gone, or never was. */
struct process_history *process_memories_find(const struct process_memories *memories, int64_t pid,
                                              uint64_t start_ticks);
/* The same by pid alone. */
struct process_history *process_memories_find_pid(const struct process_memories *memories,
                                                  int64_t pid);

/* Whether it is in the current snapshot. */
bool process_history_is_there(const struct process_memories *memories,
                              const struct process_history *memory);

void streak_go_on(struct streak *streak, bool holds, uint64_t now_ns);
/* Whether it has held for so long. */
bool streak_has_lasted(const struct streak *streak, uint64_t now_ns, uint64_t ns);
