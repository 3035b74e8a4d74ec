/* What happened lately, oldest first: the lines below the table. */
#pragma once

#include "base/vec.h"
#include "client/headline.h"

/* More than any screen has rows. */
#define TIMELINE_KEPT 500

/* Zero-initialised is empty and valid. */
struct timeline {
    struct VEC(struct headline *) items;
};

/* In the order of time; one that is there already, or that there is no memory for, is dropped. */
void timeline_add(struct timeline *timeline, struct headline *headline);
void timeline_clear(struct timeline *timeline);
void timeline_done(struct timeline *timeline);
