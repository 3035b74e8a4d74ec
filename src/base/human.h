/* Formats figures for people: `1.24 s`, `812.4 MB`, `1,501`. Each function returns its buffer's
 * text, so that a call can be an argument of printf. NaN (unknown) becomes `-`. */
#pragma once

#include <stdint.h>

struct human {
    char text[32];
};

const char *human_duration(struct human *buffer, double seconds);
/* `mb` is in MiB. */
const char *human_mb(struct human *buffer, double mb);
const char *human_count(struct human *buffer, uint64_t count);
/* Formats a signal as "SIGKILL", or "signal 35" if it has no name. */
const char *human_signal(struct human *buffer, int number);
