/* The character set of the environment's locale. */
#pragma once

#include <stdbool.h>

/* Returns whether the locale (LC_ALL, LC_CTYPE, LANG) uses UTF-8; false if the locale is not
 * installed. Reads the environment at the first call; later calls return the same result. Does not
 * change the program's locale. Thread-safe. */
bool charset_is_utf8(void);
