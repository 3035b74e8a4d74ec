/* A growing text buffer with a sticky error: append any number of times, then check text_error()
 * once. After a failed allocation the content stays as it was and further appends do nothing.
 * A zero-initialised buffer is empty and valid. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct text {
    char *bytes; /* NUL-terminated once anything was appended */
    size_t length;
    size_t capacity;
    int error;
};

void text_append(struct text *text, const char *bytes, size_t length);
void text_append_string(struct text *text, const char *string);
void text_append_repeated(struct text *text, char character, size_t times);
void text_printf(struct text *text, const char *format, ...) _printf_(2, 3);
void text_vprintf(struct text *text, const char *format, va_list arguments) _printf_(2, 0);

/* Appends text that is safe for a terminal or a log: control characters and bad UTF-8 are escaped
 * as \n, \t, \x1b, \u202e. Cuts the text to `max_columns`, ending in "…". Returns the columns
 * used. */
size_t text_append_visible(struct text *text, const char *bytes, size_t length, size_t max_columns);
/* The same in ASCII: "…" becomes "...", "≥" becomes ">=", any other character \u00e9. */
size_t text_append_visible_ascii(struct text *text, const char *bytes, size_t length,
                                 size_t max_columns);
/* Rewrites the text from byte `start` on as ASCII, in the same way. ASCII bytes, including control
 * characters, are not changed. */
void text_to_ascii(struct text *text, size_t start);

/* Inline, because the JSON writer calls it for most characters. */
static inline void text_append_char(struct text *text, char character)
{
    if (text->error || text->length + 1 >= text->capacity) {
        text_append(text, &character, 1);
        return;
    }
    text->bytes[text->length++] = character;
    text->bytes[text->length] = '\0';
}

/* Makes room for `more` bytes and a NUL, so that the caller can write at bytes + length. Returns 0
 * or -ENOMEM. */
int text_reserve(struct text *text, size_t more);

/* Returns 0, or -ENOMEM if an append failed. */
int text_error(const struct text *text);
/* Returns the content, "" for an empty buffer. Valid until the next append. */
const char *text_string(const struct text *text);

/* Empties the buffer, clears the error and keeps the memory. */
void text_reset(struct text *text);
void text_done(struct text *text);

#define _cleanup_text_ __attribute__((cleanup(text_done)))

/* Returns whether two strings are equal, or both NULL. */
bool text_is_same(const char *a, const char *b);
