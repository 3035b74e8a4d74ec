/* The latest events, oldest first, for the lines below the table. */
#pragma once

#include "base/vec.h"
#include "client/headline.h"

/* More than any screen has rows. */
#define TIMELINE_KEPT 500

/* Zero-initialised is empty and valid. */
struct timeline {
    struct VEC(struct headline *) items;
};

/* Inserts a headline by time and takes ownership of it. Frees a duplicate, the oldest headline
 * beyond the limit, and without memory the new one. */
void timeline_add(struct timeline *timeline, struct headline *headline);
void timeline_clear(struct timeline *timeline);
void timeline_done(struct timeline *timeline);
