/* The frames of a feed as JSON, a line each, for programs: no screen, no keys. */
#pragma once

#include "base/text.h"
#include "client/feed.h"

struct stream_options {
    struct feed_options feed; /* a history is given without a pause, to its end */
    size_t limit;             /* lines; 0: no end */
    /* Takes a line, with its newline; other than 0 ends it. */
    int (*on_line)(void *context, const struct text *line);
    /* A daemon has gone (is_down), or is back; or it cannot be asked, for the reason in `words`. */
    void (*on_status)(void *context, const struct feed_status *status);
    void *context;
};

/* 0, what on_line returned, or a negative errno with words in `error`. */
int stream_frames(const struct stream_options *options, struct feed_error *error);
