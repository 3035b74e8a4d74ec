/* `sonde top`: the screen, its keys and its feed in one loop, until the user quits. */
#pragma once

#include "client/feed.h"

struct top_options {
    struct feed_options feed;
    bool is_readonly;
    bool without_unicode;
    bool without_colour;
};

/* stdin and stdout must be a terminal, which is restored at the end. Returns 0, or a negative errno
 * with a message in `error`. */
int top_run(const struct top_options *options, struct feed_error *error);
