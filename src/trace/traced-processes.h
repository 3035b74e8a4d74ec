/* System calls that tracers counted for living processes. They are in the row of each process in
 * the next snapshot, and again in the event of its end. */
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
    bool is_shown;        /* the counts were in a snapshot */
    uint64_t seen;        /* the last snapshot that had the process */
    struct syscall_profile calls;
};

/* A zero-initialised struct is empty and valid. */
struct traced_processes {
    struct map processes; /* pid → struct traced_process */
    uint64_t snapshots;   /* how many were filled */
};

void traced_processes_done(struct traced_processes *processes);

/* Adds the counts to earlier ones of the process. Without memory, snapshots do not have them. */
void traced_processes_add(struct traced_processes *processes, pid_t pid, uint64_t start_ticks,
                          const struct syscall_profile *calls, uint64_t now_ns);
/* Returns NULL if there is none. */
const struct traced_process *traced_processes_find(const struct traced_processes *processes,
                                                   pid_t pid);
/* Fills the rows of a snapshot, and drops processes without a row. Returns 0 or -ENOMEM. */
int traced_processes_fill(struct traced_processes *processes, struct snapshot *snapshot);
