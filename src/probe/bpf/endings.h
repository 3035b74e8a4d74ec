/* Ends of processes that are not yet told of.
 *
 * The kernel tells of an end in two parts: the process is on its way out, and, once its memory is
 * given back, it has left the CPU: after some microseconds, or a second for many gigabytes. An end
 * is handed on when both are there; and not before those of children that are on their way out as
 * well, because it may have waited for them. It waits for no other. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/map.h"
#include "probe/bpf/kernel-records.h"

/* More do not end within the time that threads of one process take to end. */
#define ENDED_LATELY_MAX 64

/* `cpu_ns` is INT_UNKNOWN where the second part never came. */
typedef void (*ending_fn)(void *context, const struct kernel_exit *exit, int64_t cpu_ns);

struct endings {
    ending_fn on_end;
    void *context;
    struct map by_pid;   /* → struct ending */
    struct map children; /* pid → how many children of it are among them, as a pointer */
    size_t tagged;       /* those of runs */
    struct {
        pid_t pid;
        uint64_t start_boot_ns;
    } lately[ENDED_LATELY_MAX]; /* a ring */
    size_t count;               /* that there have been */
};

void endings_init(struct endings *endings, ending_fn on_end, void *context);
/* Forgets those that wait. */
void endings_done(struct endings *endings);

/* The first part. `lost` is how many events were lost until before that. Without memory it is told
 * of at once. */
void endings_exit(struct endings *endings, const struct kernel_exit *exit, uint64_t lost);
/* The second part. */
void endings_dead(struct endings *endings, const struct kernel_dead *dead, uint64_t now_ns);
/* Tells of those that have waited for too long. `lost`: how many events were lost until now. */
void endings_overdue(struct endings *endings, uint64_t now_ns, uint64_t lost);
/* Tells of one that is known to be over (it was waited for, or another process has its pid), if it
 * waits, and before it of its descendants that do: what is unknown of them stays so. */
void endings_settle(struct endings *endings, pid_t pid);

bool endings_has(const struct endings *endings, pid_t pid);
