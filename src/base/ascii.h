/* Text for terminals and files whose locale is not UTF-8. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* Whether the user's locale (LC_ALL, LC_CTYPE, LANG) is a UTF-8 one. Does not set the locale. */
bool ascii_locale_is_utf8(void);

/* The ASCII spelling of one of sonde's own symbols, such as ">=" for U+2265; NULL: it has none. */
const char *ascii_find(uint32_t character);

/* Appends valid UTF-8 as ASCII: symbols by ascii_find(), other characters as '?' for each column.
 * The "..." of text that was cut replaces the two characters before it as well, where there are
 * such, so that tables stay aligned. */
void ascii_append(struct text *out, const char *text, size_t length);
