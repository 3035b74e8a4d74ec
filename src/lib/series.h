/* The samples of a run, in bounded memory. When it is full, each pair of samples is merged, and
 * from then on each kept sample represents twice as many. The memory is allocated once; unused
 * pages are never touched. No clock, no I/O. */
#pragma once

#include <stddef.h>

#include "sonde/sonde.h"

struct series {
    struct sonde_sample *kept;
    size_t count;
    size_t capacity; /* even */
    uint64_t stride; /* number of samples that each kept one represents */
    struct sonde_sample pending;
    uint64_t pending_count; /* number that the pending one represents so far; below `stride` */
};

/* Allocates the memory for `capacity` samples. Returns 0 or -ENOMEM. */
int series_init(struct series *series, size_t capacity);
void series_done(struct series *series);
void series_clear(struct series *series);

void series_add(struct series *series, const struct sonde_sample *sample);

/* Returns the number of samples, including the pending one. */
size_t series_count(const struct series *series);
/* Copies the samples; `into` has room for series_count(). */
void series_copy(const struct series *series, struct sonde_sample *into);
