/* System calls that tracers counted for living processes. The next snapshot shows the counts in the
 * row of the process, and the event of its end shows them again. */
#pragma once

#include "base/map.h"
#include "model/snapshot.h"
#include "model/syscall-profile.h"

/* Counts that are older than this do not show what the process does now. */
#define TRACED_FRESH_SEC 60

struct traced_process {
    pid_t pid;
    uint64_t start_ticks;
    uint64_t reported_ns; /* monotonic */
    bool is_shown;        /* a snapshot has contained the counts */
    uint64_t seen;        /* number of the last snapshot that contained the process */
    struct syscall_profile calls;
};

/* A zero-initialised struct is empty and valid. */
struct traced_processes {
    struct map processes; /* pid → struct traced_process */
    uint64_t snapshots;   /* number of the last one that was filled */
};

void traced_processes_done(struct traced_processes *processes);

/* Adds `calls` to the counts of the process, and shows the sums in the next snapshot. Another start
 * time means another process: its counts begin anew. Without memory the counts are dropped. */
void traced_processes_add(struct traced_processes *processes, pid_t pid, uint64_t start_ticks,
                          const struct syscall_profile *calls, uint64_t now_ns);
/* Returns the process, or NULL if none with that pid was traced. */
const struct traced_process *traced_processes_find(const struct traced_processes *processes,
                                                   pid_t pid);
/* Writes counts that no snapshot has contained yet into the rows of their processes, and drops
 * processes without a row. Returns 0, or -ENOMEM: then rows may lack their counts, and the next
 * snapshot shows these. */
int traced_processes_fill(struct traced_processes *processes, struct snapshot *snapshot);
