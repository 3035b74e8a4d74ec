/* Draws the whole screen on a canvas. A pure function of its input; the caller looks up the names
 * of users. */
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
    /* Returns the name of a user; NULL: unknown, the uid is shown. May be NULL. */
    const char *(*user_name)(void *context, int64_t uid);
    void *context;
};

/* The layout that screen_draw() uses for a canvas of this size. */
struct layout screen_layout(const struct screen *screen, unsigned rows, unsigned columns);

/* Draws all parts. Errors are in canvas_error(). */
void screen_draw(const struct screen *screen, struct canvas *canvas);
