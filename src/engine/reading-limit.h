/* How much time of the loop the readings take that clients cause, for example with the end of a
 * step. Pure: the caller passes the time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Zero-initialised is valid: no reading was made yet. */
struct reading_limit {
    uint64_t used_ns; /* decreases as time passes */
    uint64_t at_ns;   /* monotonic: when it was updated */
};

/* Returns whether the next reading may be made. */
bool reading_limit_allows(struct reading_limit *limit, uint64_t now_ns);

/* Adds what a reading took. */
void reading_limit_add(struct reading_limit *limit, uint64_t took_ns);
