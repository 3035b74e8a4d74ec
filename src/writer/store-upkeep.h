/* Schedule of the store's maintenance: retention at the start and then regularly; making room on a
 * full disk, at limited intervals. Used by the writer's thread only. */
#pragma once

#include "store/store.h"

/* Zero-initialised: retention is due, and room may be made. */
struct store_upkeep {
    bool is_retaining;
    bool has_retained; /* completely, or another writer has */
    uint64_t retain_at_ns;
    uint64_t retain_at_least_until_ns; /* retention is not interrupted before this time */
    uint64_t make_room_at_ns;          /* room is not made again before this time */
};

/* Returns whether room may be made now. If so, it may not be made again for `every_ns`, so that it
 * does not happen at every tick on a nearly full disk. */
bool store_upkeep_may_make_room(struct store_upkeep *upkeep, uint64_t every_ns);

/* Runs retention, unless another writer did recently. The next one is due in `every_ns`, or soon if
 * this one was interrupted. Returns what store_retain() returns. */
int store_upkeep_retain(struct store_upkeep *upkeep, struct store *store, uint64_t every_ns);
/* Runs retention for a short time at the end of a run, unless it has run already. Otherwise a
 * machine with only short runs would never run it. Returns the same. */
int store_upkeep_retain_slice(struct store_upkeep *upkeep, struct store *store);
