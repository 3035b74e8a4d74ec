/* System calls that tracers counted for living processes: shown in the next row of each, and again
 * with its end. */
#pragma once

#include "base/map.h"
#include "model/snapshot.h"
#include "model/syscall-profile.h"

/* Older counts do not show what the process does now. */
#define TRACED_FRESH_SEC 60

struct traced_process {
    pid_t pid;
    uint64_t start_ticks;
    uint64_t reported_ns; /* monotonic */
    bool is_shown;        /* was in a row */
    uint64_t seen;        /* the last snapshot that had it */
    struct syscall_profile calls;
};

/* Zero-initialised is empty. */
struct traced_processes {
    struct map processes; /* pid → struct traced_process */
    uint64_t snapshots;   /* how many were filled */
};

void traced_processes_done(struct traced_processes *processes);

/* Adds to earlier counts. Without memory its rows do not show them. */
void traced_processes_add(struct traced_processes *processes, pid_t pid, uint64_t start_ticks,
                          const struct syscall_profile *calls, uint64_t now_ns);
/* NULL: none. */
const struct traced_process *traced_processes_find(const struct traced_processes *processes,
                                                   pid_t pid);
/* Fills the rows of a snapshot, and drops processes without a row. 0 or -ENOMEM. */
int traced_processes_fill(struct traced_processes *processes, struct snapshot *snapshot);
