/* What tracers have told of processes that live: each shows it in its next row, and once more, with
 * its end, in its last. */
#pragma once

#include "base/map.h"
#include "model/snapshot.h"
#include "model/syscall-profile.h"

/* After that, it does not tell what the process is doing now. */
#define TRACED_FRESH_SEC 60

struct traced_process {
    pid_t pid;
    uint64_t start_ticks;
    uint64_t told_ns; /* monotonic */
    bool is_shown;    /* in a row */
    uint64_t seen;    /* with which snapshot it was last there */
    struct syscall_profile calls;
};

/* Zero-initialised is empty. */
struct traced_processes {
    struct map processes; /* pid → struct traced_process */
    uint64_t snapshots;   /* that were filled */
};

void traced_processes_done(struct traced_processes *processes);

/* Added to what was told of it before. Without memory its rows do not show it. */
void traced_processes_add(struct traced_processes *processes, pid_t pid, uint64_t start_ticks,
                          const struct syscall_profile *calls, uint64_t now_ns);
/* NULL: nothing. */
const struct traced_process *traced_processes_find(const struct traced_processes *processes,
                                                   pid_t pid);
/* Enters it into the rows of a snapshot, and forgets those that have none any more. 0 or -ENOMEM.
 */
int traced_processes_fill(struct traced_processes *processes, struct snapshot *snapshot);
