/* `sonde top`: the screen, its keys and its feed in one loop, until it is quit. */
#pragma once

#include "client/feed.h"

struct top_options {
    struct feed_options feed;
    bool is_readonly;
    bool without_unicode;
    bool without_colour;
};

/* stdin and stdout are a terminal. 0, or a negative errno with words in `error`; the terminal is as
 * it was in any case. */
int top_run(const struct top_options *options, struct feed_error *error);
