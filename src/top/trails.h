/* What processes and jobs used lately: a short series each, for sparklines. Fed with every frame;
 * what is in none any more is forgotten. Pure. */
#pragma once

#include <stdint.h>

#include "base/map.h"
#include "model/snapshot.h"

/* As wide as a sparkline gets. */
#define TRAIL_POINTS 120

struct trail {
    uint64_t key;
    uint64_t frame; /* the last one that it was in */
    unsigned count; /* points so far, TRAIL_POINTS at most */
    unsigned next;  /* where the next goes: a ring */
    float cpu[TRAIL_POINTS];
    float mb[TRAIL_POINTS];
};

/* Zero-initialised is empty and valid. */
struct trails {
    struct map by_key; /* of listing.h */
    uint64_t frame;
};

/* What there is no memory for is left out. */
void trails_note(struct trails *trails, const struct snapshot *snapshot);
void trails_forget(struct trails *trails);
void trails_done(struct trails *trails);

/* NULL: nothing is known of it. */
const struct trail *trails_find(const struct trails *trails, uint64_t key);

/* The i-th latest point, from 0; unknown (NAN) beyond what there is. */
double trail_cpu(const struct trail *trail, unsigned i);
double trail_mb(const struct trail *trail, unsigned i);
