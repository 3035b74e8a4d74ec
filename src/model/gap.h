/* A gap: time that the samples do not cover, or a clock that moved. Stored and shown, never hidden.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "model/field.h"

enum gap_kind {
    GAP_NONE,
    GAP_MISSED_TICKS, /* sonde was late: stopped, starved or blocked */
    GAP_SUSPEND,      /* the machine slept */
    GAP_CLOCK_STEP,   /* the wall clock was set */
    GAP_NOT_STORED,   /* snapshots were taken and could not be kept: a full disk, a slow one */
    GAP_EVENTS,       /* events happened that were not kept one by one */
};

struct gap {
    int kind;         /* enum gap_kind */
    double timestamp; /* wall clock after it */
    double seconds;   /* how long; for a step by how much, negative if backwards */
    int64_t lost;     /* snapshots or events that are not in the store */
    const char *reason;
};

struct gap_list LIST(struct gap);

extern const struct record gap_record;

/* What lies between two moments that were meant to be `interval_ns` apart (0: any distance). The
 * gravest kind is named where several apply. */
struct gap gap_between(const struct moment *earlier, const struct moment *later,
                       uint64_t interval_ns);
