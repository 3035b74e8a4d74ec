/* Words for a person, on stderr, one line each, as "sonde: …". Whatever comes in from outside is
 * made visible first: no control character reaches the terminal. */
#pragma once

#include "base/macros.h"

void log_error(const char *format, ...) _printf_(1, 2);
/* Something worth knowing that is no failure. */
void log_note(const char *format, ...) _printf_(1, 2);
