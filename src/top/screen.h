/* The whole screen: all that is known in, rows of text out. Pure, but for the names of users, which
 * the caller looks up. */
#pragma once

#include "client/feed.h"
#include "top/canvas.h"
#include "top/layout.h"
#include "top/listing.h"
#include "top/timeline.h"
#include "top/trails.h"
#include "top/view.h"

struct screen {
    const struct frame *frame; /* NULL: none yet */
    const struct feed_status *status;
    const struct listing *listing;
    const struct view *view;
    const struct timeline *timeline;
    const struct trails *trails;
    double now; /* wall clock */
    /* NULL: the number stands for itself. */
    const char *(*user_name)(void *context, int64_t uid);
    void *context;
};

/* For the same screen, whatever is drawn on it. */
struct layout screen_layout(const struct screen *screen, unsigned rows, unsigned columns);

/* Errors are the canvas's. */
void screen_draw(const struct screen *screen, struct canvas *canvas);
