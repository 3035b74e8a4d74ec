/* What the daemon knows at the moment: the latest snapshot, the last events, the last gaps. */
#pragma once

#include "model/tick-box.h"

#define LIVE_EVENTS_MAX 200
#define LIVE_GAPS_MAX   20

/* An event in one piece, and whose it is. */
struct live_event {
    struct process_event event;
    int64_t uid;
    struct arena arena;
};

struct live_gap {
    struct gap gap;
    char reason[128];
};

/* Zero-initialised is empty and valid. */
struct live {
    struct snapshot *latest;                   /* NULL before the first */
    uint64_t taken_ns;                         /* monotonic: when */
    struct live_event events[LIVE_EVENTS_MAX]; /* a ring */
    size_t event_count;                        /* that there have been */
    struct live_gap gaps[LIVE_GAPS_MAX];       /* a ring */
    size_t gap_count;
};

void live_done(struct live *live);

/* Without memory, what was there stays. */
void live_note_snapshot(struct live *live, const struct snapshot *snapshot);
void live_note_event(struct live *live, const struct process_event *event, int64_t uid);
void live_note_gap(struct live *live, const struct gap *gap);

/* The process in the latest snapshot; NULL: it is not there. */
const struct process_metric *live_find_process(const struct live *live, pid_t pid);

/* The i-th of the events that are kept, oldest first; NULL behind the last. */
const struct live_event *live_event_at(const struct live *live, size_t i);
const struct gap *live_gap_at(const struct live *live, size_t i);
