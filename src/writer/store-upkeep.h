/* Schedule of the store's maintenance: retention at the start and then regularly; making room on a
 * full disk, at limited intervals. Used by the writer's thread only. */
#pragma once

#include "store/store.h"

/* Zero-initialised: retention is due, and room may be made. */
struct store_upkeep {
    bool is_retaining;
    bool has_retained; /* completely, or another writer has */
    uint64_t retain_at_ns;
    uint64_t retain_at_least_until_ns; /* should_stop is ignored before */
    uint64_t make_room_at_ns;          /* not before */
};

/* Returns whether room may be made now; then not again for `every_ns`, so that a nearly full disk
 * does not cause it with every tick. */
bool store_upkeep_may_make_room(struct store_upkeep *upkeep, uint64_t every_ns);

/* Runs retention, unless another writer did recently. The next one is due in `every_ns`, or soon if
 * it was cut short. Returns what store_retain() returns. */
int store_upkeep_retain(struct store_upkeep *upkeep, struct store *store, uint64_t every_ns);
/* A short slice of retention at the end of a run: without it, a machine with only short runs would
 * never do any. */
int store_upkeep_retain_slice(struct store_upkeep *upkeep, struct store *store);
