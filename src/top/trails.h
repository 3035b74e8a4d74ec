/* Keeps the latest CPU and memory figures of each process, step and job, for sparklines. Every
 * frame adds a point; series of processes that are gone are removed. */
#pragma once

#include <stdint.h>

#include "base/map.h"
#include "model/snapshot.h"

/* The largest width of a sparkline. */
#define TRAIL_POINTS 120

struct trail {
    uint64_t key;
    uint64_t frame; /* number of the last frame that contained it */
    unsigned count; /* number of points, at most TRAIL_POINTS */
    unsigned next;  /* index of the next point in the rings */
    float cpu[TRAIL_POINTS];
    float mb[TRAIL_POINTS];
};

/* Zero-initialised is empty and valid. */
struct trails {
    struct map by_key; /* struct trail, by the key of its row (listing.h) */
    uint64_t frame;    /* number of frames so far */
};

/* Adds a point to the series of everything in the snapshot. Without memory, points are omitted. */
void trails_add(struct trails *trails, const struct snapshot *snapshot);
void trails_clear(struct trails *trails);
void trails_done(struct trails *trails);

/* The series of a row; NULL: there is none. */
const struct trail *trails_find(const struct trails *trails, uint64_t key);

/* The i-th latest point, from 0; unknown (NAN) if there are fewer points. */
double trail_cpu(const struct trail *trail, unsigned i);
double trail_mb(const struct trail *trail, unsigned i);
