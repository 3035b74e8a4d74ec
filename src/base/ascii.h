/* Text for terminals and files whose locale is not UTF-8 (charset.h). */
#pragma once

#include <stdint.h>

#include "base/text.h"

/* Returns the ASCII spelling of a symbol that sonde writes, or of common punctuation: ">=" for
 * U+2265. Returns NULL if the character has none. */
const char *ascii_find(uint32_t character);

/* Appends valid UTF-8 as ASCII: symbols by ascii_find(), other characters as '?' for each column.
 * "…" becomes "...", which also replaces the two visible characters before it, so that tables stay
 * aligned. */
void ascii_append(struct text *out, const char *text, size_t length);
