/* A growing text buffer with a sticky error: append as often as you like, then ask text_error()
 * once. After a failed allocation it holds what it held, and further appends do nothing.
 * Zero-initialised is empty and valid. */
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

/* As a terminal or a log may show it: control characters and bad UTF-8 as \n, \t, \x1b, \u202e.
 * At most `max_columns` wide; what is cut ends in "…". Returns the columns used. */
size_t text_append_visible(struct text *text, const char *bytes, size_t length, size_t max_columns);

/* Inline, because a JSON writer does little else. */
static inline void text_append_char(struct text *text, char character)
{
    if (text->error || text->length + 1 >= text->capacity) {
        text_append(text, &character, 1);
        return;
    }
    text->bytes[text->length++] = character;
    text->bytes[text->length] = '\0';
}

/* Makes room for `more` bytes and a NUL, so that a caller may write at bytes + length. */
int text_reserve(struct text *text, size_t more);

/* 0 or -ENOMEM. */
int text_error(const struct text *text);
/* Never NULL. */
const char *text_string(const struct text *text);

void text_reset(struct text *text);
void text_done(struct text *text);

#define _cleanup_text_ __attribute__((cleanup(text_done)))
