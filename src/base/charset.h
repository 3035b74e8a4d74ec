/* The character set of the environment's locale. */
#pragma once

#include <stdbool.h>

/* Whether the locale (LC_ALL, LC_CTYPE, LANG) is a UTF-8 one. false also if it is not installed.
 * Reads the locale at the first call and does not change that of the program; thread-safe. */
bool charset_is_utf8(void);
