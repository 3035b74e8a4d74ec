/* UTF-8, for text that comes from processes and is hostile until shown otherwise.
 *
 * Text is cleaned once, where it is read (utf8_clean), so that everything after can rely on valid
 * UTF-8; control characters stay in it and are escaped where it is shown (text_append_visible). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* Decodes the character at `text`; returns its length, or 0 if the bytes there are not valid UTF-8
 * (overlong forms, surrogates and values past U+10FFFF included). `length` must not be 0. */
size_t utf8_decode(const char *text, size_t length, uint32_t *ret_character);

size_t utf8_encode(uint32_t character, char ret_bytes[static 4]);

bool utf8_valid(const char *text, size_t length);

/* Copies `text` into `into`, each bad byte as U+FFFD, never more than `capacity - 1` bytes, cut on
 * a character boundary, with a NUL at the end. Returns the length. `capacity` must not be 0. */
size_t utf8_clean(char *into, size_t capacity, const char *text, size_t length);

/* Terminal columns of a character: 0 for combining ones, 2 for wide ones, else 1. */
unsigned utf8_columns(uint32_t character);

/* Whether a terminal could act on the character instead of showing it: C0, DEL, C1, line
 * separators and the bidirectional controls, which can make a line read as another one. */
bool utf8_is_control(uint32_t character);

/* A cleaned copy in `arena`; NULL without memory. */
char *utf8_clean_copy(struct arena *arena, const char *text);
