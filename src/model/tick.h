/* A tick: the snapshot of one moment, with the events since the previous one. */
#pragma once

#include "base/uuid.h"
#include "model/event.h"
#include "model/gap.h"
#include "model/snapshot.h"

/* The system calls of a process as a tracer counted them, when it ended or was detached. */
struct process_trace {
    int64_t pid;
    uint64_t start_ticks;
    const char *run_id; /* NULL: none */
    struct tally_list syscall_counts;
    struct tally_list syscall_time_pct;
    const char *details; /* as text; NULL: none */
};

struct process_trace_list LIST(struct process_trace);

/* The events between two snapshots, and the second snapshot. */
struct tick {
    const struct snapshot *snapshot; /* NULL: none; with `id` set, see snapshot_id_next() */
    struct process_event_list events;
    struct gap_list gaps;
    struct process_trace_list traces; /* of processes that are already stored and may be gone */
    struct anomaly_list anomalies;    /* that opened, changed or cleared; see store_write_tick() */
    /* If set, this session stores only the events of this run, beside another session that stores
     * its snapshots. The snapshot of the tick then only owns texts and is not stored. "": none. */
    char beside_run[UUID_TEXT_SIZE];
};

/* Returns the snapshot that must be stored, or NULL if there is none. */
static inline const struct snapshot *tick_stored_snapshot(const struct tick *tick)
{
    return tick->beside_run[0] ? NULL : tick->snapshot;
}
