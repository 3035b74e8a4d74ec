/* Converts the frames of a feed to JSON, one line per frame, for `sonde top --json`. */
#pragma once

#include "base/text.h"
#include "client/feed.h"

struct stream_options {
    struct feed_options feed; /* a history is read without pauses, to its end */
    size_t limit;             /* number of lines; 0: unlimited */
    /* Receives a line with its newline. A result other than 0 ends the stream. */
    int (*on_line)(void *context, const struct text *line);
    /* The daemon has gone (is_down) or is back; or it cannot be used, for status->reason. */
    void (*on_status)(void *context, const struct feed_status *status);
    void *context;
};

/* Runs until the limit, the end of a history, or a result of on_line. Returns 0, the result of
 * on_line, or a negative errno with a message in `error`. */
int stream_frames(const struct stream_options *options, struct feed_error *error);
