/* Gap: time that no sample covers, or a clock that was set. Gaps are stored and shown. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "model/field.h"

enum gap_kind {
    GAP_NONE,
    GAP_MISSED_TICKS, /* sonde was late: stopped, starved or blocked */
    GAP_SUSPEND,      /* the machine was suspended */
    GAP_CLOCK_STEP,   /* the wall clock was set */
    GAP_NOT_STORED,   /* snapshots could not be stored: the disk is full or slow */
    GAP_EVENTS,       /* events were lost */
};

struct gap {
    int kind;         /* enum gap_kind */
    double timestamp; /* wall clock at its end */
    double seconds;   /* duration; for a clock step its size, negative if backwards */
    int64_t lost;     /* number of snapshots or events that are not stored, if known */
    const char *reason;
};

struct gap_list LIST(struct gap);

extern const struct record gap_record;

/* Returns the gap between two moments that should be `interval_ns` apart (0: any distance). If
 * several kinds apply, it returns the most severe. */
struct gap gap_between(const struct moment *earlier, const struct moment *later,
                       uint64_t interval_ns);
