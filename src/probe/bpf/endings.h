/* Exits of processes that are not reported yet.
 *
 * An exit arrives in two events: the process begins to exit, and later, after it has released its
 * memory, it leaves the CPU for the last time. That takes microseconds, or a second for many
 * gigabytes. An exit is reported when both events have arrived, and not before pending exits of its
 * children, because the process may have waited for them. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/map.h"
#include "probe/bpf/kernel-records.h"

/* Exits that are remembered to detect duplicates: at most this many processes end while the threads
 * of one process end. */
#define RECENT_EXITS_MAX 64

/* `dead` is NULL if the second event did not arrive. */
typedef void (*ending_fn)(void *context, const struct kernel_exit *exit,
                          const struct kernel_dead *dead);

struct endings {
    ending_fn on_end;
    void *context;
    struct map by_pid;   /* → struct ending */
    struct map children; /* pid → number of its children with a pending exit, as a pointer */
    size_t tagged;       /* pending exits of processes with a tag */
    struct {
        pid_t pid;
        uint64_t start_boot_ns;
    } recent[RECENT_EXITS_MAX]; /* the latest exits: a ring */
    size_t count;               /* exits so far */
};

void endings_init(struct endings *endings, ending_fn on_end, void *context);
/* Drops pending exits without reporting them. */
void endings_done(struct endings *endings);

/* Handles the first event of an exit. `lost` is the number of events lost before it. If memory runs
 * out, reports the exit at once. */
void endings_exit(struct endings *endings, const struct kernel_exit *exit, uint64_t lost);
/* Handles the second event of an exit. */
void endings_dead(struct endings *endings, const struct kernel_dead *dead, uint64_t now_ns);
/* Reports exits that have been pending for too long. `lost` is the number of events lost so far. */
void endings_overdue(struct endings *endings, uint64_t now_ns, uint64_t lost);
/* Reports the pending exit of a process that is known to have ended (it was waited for, or another
 * process has its pid), after those of its descendants. Unknown values stay unknown. */
void endings_settle(struct endings *endings, pid_t pid);

/* Returns whether the process has a pending exit. */
bool endings_has(const struct endings *endings, pid_t pid);
