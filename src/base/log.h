/* Log messages on stderr, one line each: "sonde: …" for a person, or key=value fields for a daemon.
 * Control characters are escaped, so that none reaches the terminal. */
#pragma once

#include "base/macros.h"

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
};

void log_error(const char *format, ...) _printf_(1, 2);
/* Logs information that is not an error. */
void log_note(const char *format, ...) _printf_(1, 2);

/* Switches to lines of the form `time=… level=… message="…"`. Such lines never block: while stderr
 * is full they are dropped and counted, and a later line reports the count. */
void log_use_fields(void);

/* Logs a message with fields: pairs of a key and a string (a NULL value omits the field), then
 * NULL. Without log_use_fields() they follow the message in parentheses. */
void log_fields(enum log_level level, const char *message, ...) __attribute__((sentinel));
