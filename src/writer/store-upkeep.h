/* When the store is kept in order: retention at the start and then now and again, room on a full
 * disk not more often than that helps. Belongs to the writer's thread. */
#pragma once

#include "store/store.h"

/* Zero-initialised: retention is due, and room may be made. */
struct store_upkeep {
    bool is_retaining;
    bool has_retained; /* to the end, or another has */
    uint64_t retain_at_ns;
    uint64_t retain_at_least_until_ns; /* whoever wants it to stop waits so long */
    uint64_t make_room_at_ns;          /* at the earliest */
};

/* Whether room may be made now; not again for `every_ns` then, so that it is not done with every
 * tick on a disk that stays nearly full. */
bool store_upkeep_may_make_room(struct store_upkeep *upkeep, uint64_t every_ns);

/* Retention, if no writer has seen to it lately; the next one is due in `every_ns`, or soon if it
 * was cut short. As store_retain() returns. */
int store_upkeep_retain(struct store_upkeep *upkeep, struct store *store, uint64_t every_ns);
/* Where all runs are short, nobody ever has the time: then each gives a little of its own, at its
 * end. */
int store_upkeep_retain_a_little(struct store_upkeep *upkeep, struct store *store);
