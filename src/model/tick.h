/* A tick: the snapshot of one moment, with what happened since the one before. */
#pragma once

#include "base/uuid.h"
#include "model/event.h"
#include "model/gap.h"
#include "model/snapshot.h"

/* What a tracer has told of the system calls of a process, when it was over or left alone. */
struct process_trace {
    int64_t pid;
    uint64_t start_ticks;
    const char *run_id; /* NULL: none */
    struct tally_list syscall_counts;
    struct tally_list syscall_time_pct;
    const char *details; /* the same in words; NULL: none */
};

struct process_trace_list LIST(struct process_trace);

/* What came between two ticks, and the snapshot that ends them. */
struct tick {
    struct snapshot *snapshot; /* NULL: there is none; with `id` set, see snapshot_id_next() */
    struct process_event_list events;
    struct gap_list gaps;
    struct process_trace_list traces; /* of processes that are stored already, some of them gone */
    struct anomaly_list anomalies; /* that opened, changed or cleared; see store_write_tick() */
    /* The run that another session stores, with its snapshots, while this one stores its events:
     * the snapshot of the tick is not stored, it only holds texts of the rest. "": none. */
    char beside_run[UUID_TEXT_SIZE];
};

/* The snapshot that is to be stored; NULL: there is none. */
static inline struct snapshot *tick_stored_snapshot(const struct tick *tick)
{
    return tick->beside_run[0] ? NULL : tick->snapshot;
}
