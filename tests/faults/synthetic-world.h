/* A synthetic machine: processes of which some are busy, some start and some end, and whose stored
 * rows can be verified.
 *
 * write_bytes of a process is a checksum of its integers, active_sheets of a snapshot the sum of
 * these checksums, and running_jobs the number of the tick, from 1 on. This detects mixed rows of
 * two writers or two ticks. */
#pragma once

#include <stdbool.h>

#include "base/uuid.h"
#include "model/snapshot.h"
#include "store/store.h"

/* The host of its sessions. */
#define SYNTHETIC_HOST "synthetic-world"

struct synthetic_process;

struct synthetic_world {
    uint64_t random;
    double now; /* Unix seconds */
    double interval_seconds;
    int64_t tick; /* number of the last */
    int64_t snapshot_id;
    int64_t next_pid;
    char run_id[UUID_TEXT_SIZE]; /* half of the processes belong to it */
    const char *job_id;          /* NULL: none does */
    struct synthetic_process *processes;
    size_t process_count;
    struct process_event *events; /* room for those of a tick */
};

/* 0 or -ENOMEM. */
int synthetic_world_init(struct synthetic_world *world, uint64_t seed, size_t processes,
                         double start, double interval_seconds, const char *job_id);
void synthetic_world_done(struct synthetic_world *world);

/* The next tick: a snapshot that is the caller's, and events whose texts the snapshot holds. 0 or
 * -ENOMEM. */
int synthetic_world_tick(struct synthetic_world *world, struct tick *ret);

/* Whether a snapshot that was read is complete and not mixed with another; otherwise prints the
 * reason. */
bool synthetic_snapshot_is_whole(const struct snapshot *snapshot, const char **ret_why);
