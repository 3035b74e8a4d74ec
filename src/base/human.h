/* Figures as a person reads them: `1.24 s`, `812.4 MB`, `1,501`. Each returns its buffer, so that
 * it can stand among printf's arguments. */
#pragma once

#include <stdint.h>

struct human {
    char text[32];
};

const char *human_duration(struct human *buffer, double seconds);
const char *human_mb(struct human *buffer, double mb);
const char *human_count(struct human *buffer, uint64_t count);
/* SIGKILL, or "signal 35" for one without a name. */
const char *human_signal(struct human *buffer, int number);
