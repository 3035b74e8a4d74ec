/* UTF-8, for text from processes, which may be hostile.
 *
 * Text is cleaned once, where it is read (utf8_clean), so that all later code can rely on valid
 * UTF-8. Control characters stay in it; text_append_visible() escapes them for output. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* Decodes the character at `text`. Returns its length in bytes, or 0 if the bytes are not valid
 * UTF-8 (overlong forms, surrogates and values above U+10FFFF are invalid). `length` must not be
 * 0. */
size_t utf8_decode(const char *text, size_t length, uint32_t *ret_character);

/* Encodes a character, without a NUL. Returns the number of bytes written. */
size_t utf8_encode(uint32_t character, char ret_bytes[static 4]);

bool utf8_valid(const char *text, size_t length);

/* Copies `text` into `into` with each bad byte as U+FFFD, cut at a character boundary to at most
 * `capacity - 1` bytes, and appends a NUL. Returns the length. `capacity` must not be 0. */
size_t utf8_clean(char *into, size_t capacity, const char *text, size_t length);

/* Returns the terminal columns of a character: 0 if it is combining, 2 if it is wide, otherwise 1.
 */
unsigned utf8_columns(uint32_t character);

/* Returns whether a terminal may act on the character instead of showing it: C0, DEL, C1, line
 * separators, and the bidirectional controls, which can change how a line reads. */
bool utf8_is_control(uint32_t character);

/* Returns a cleaned copy of the whole text in `arena`, or NULL if out of memory. */
char *utf8_clean_copy(struct arena *arena, const char *text);
char *utf8_clean_copy_bytes(struct arena *arena, const char *bytes, size_t length);
