/* Words on stderr, one line each: for a person as "sonde: …", or, for a daemon, as fields that a
 * program reads too. Whatever comes in from outside is made visible first: no control character
 * reaches the terminal. */
#pragma once

#include "base/macros.h"

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
};

void log_error(const char *format, ...) _printf_(1, 2);
/* Something worth knowing that is no failure. */
void log_note(const char *format, ...) _printf_(1, 2);

/* From now on lines are `time=… level=… message="…"`. */
void log_use_fields(void);

/* A message with fields: pairs of a key and a text (NULL: left out), then NULL. For a person they
 * stand in brackets behind the message. */
void log_fields(enum log_level level, const char *message, ...) __attribute__((sentinel));
