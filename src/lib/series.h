/* The samples that are kept: a bounded number, however long the run. When there is no room for one
 * more, every two become one, and from then on one is kept for twice as many. Memory is taken once,
 * and used only as far as it is filled. No clock, no I/O. */
#pragma once

#include <stddef.h>

#include "sonde/sonde.h"

struct series {
    struct sonde_sample *kept;
    size_t count;
    size_t capacity; /* even */
    uint64_t stride; /* how many one of them stands for */
    struct sonde_sample pending;
    uint64_t pending_count; /* how many that one stands for so far; less than `stride` */
};

/* 0 or -ENOMEM. */
int series_init(struct series *series, size_t capacity);
void series_done(struct series *series);
void series_clear(struct series *series);

void series_add(struct series *series, const struct sonde_sample *sample);

size_t series_count(const struct series *series);
/* Into room for series_count(). */
void series_copy(const struct series *series, struct sonde_sample *into);
