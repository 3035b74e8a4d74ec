/* The daemon's current data: the latest snapshot, the last events and the last gaps. */
#pragma once

#include "model/tick-box.h"

#define LIVE_EVENTS_MAX 200
#define LIVE_GAPS_MAX   20

/* An event with its texts, and its owner. */
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
    const struct snapshot *latest;             /* a reference; NULL before the first */
    uint64_t taken_ns;                         /* when it was taken, monotonic */
    struct live_event events[LIVE_EVENTS_MAX]; /* a ring: event n is at n % LIVE_EVENTS_MAX */
    size_t event_count;                        /* number ever added */
    struct live_gap gaps[LIVE_GAPS_MAX];       /* a ring like `events` */
    size_t gap_count;                          /* number ever added */
};

void live_done(struct live *live);

/* Keeps a reference to the snapshot, instead of the previous one. */
void live_note_snapshot(struct live *live, const struct snapshot *snapshot);
/* Copy their argument, which is small. Without memory, the previous data stays. */
void live_note_event(struct live *live, const struct process_event *event, int64_t uid);
void live_note_gap(struct live *live, const struct gap *gap);

/* Redacts the command lines of the events and of the latest snapshot with other words
 * (model/redact.h). The snapshot is replaced by a copy, because others share it; without memory
 * there is none until the next one. */
void live_redact(struct live *live, const struct text_list *words);

/* The process in the latest snapshot; NULL if it is not in it. */
const struct process_metric *live_find_process(const struct live *live, pid_t pid);

/* The i-th kept event, oldest first; NULL after the last. */
const struct live_event *live_event_at(const struct live *live, size_t i);
const struct gap *live_gap_at(const struct live *live, size_t i);
