#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "base/vec.h"

int text_reserve(struct text *text, size_t more)
{
    if (text->error)
        return text->error;
    if (more >= SIZE_MAX - text->length)
        return text->error = -ENOMEM;

    size_t needed = text->length + more + 1;
    if (needed > text->capacity)
        text->error =
            vec_reserve_bytes((void **)&text->bytes, &text->capacity, MAX(needed, (size_t)64), 1);
    return text->error;
}

void text_append(struct text *text, const char *bytes, size_t length)
{
    if (text_reserve(text, length) < 0)
        return;
    if (length)
        memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void text_append_string(struct text *text, const char *string)
{
    text_append(text, string, strlen(string));
}

void text_append_repeated(struct text *text, char character, size_t times)
{
    if (text_reserve(text, times) < 0)
        return;
    memset(text->bytes + text->length, character, times);
    text->length += times;
    text->bytes[text->length] = '\0';
}

void text_vprintf(struct text *text, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);

    if (length < 0 || text_reserve(text, (size_t)length) < 0)
        return;
    vsnprintf(text->bytes + text->length, (size_t)length + 1, format, arguments);
    text->length += (size_t)length;
}

void text_printf(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_vprintf(text, format, arguments);
    va_end(arguments);
}

/* Writes a valid character above 0x7F as ASCII into `into`. Returns the length. */
static size_t spell_in_ascii(uint32_t character, char into[static 16])
{
    const char *spelling = ascii_find(character);

    if (spelling)
        return (size_t)snprintf(into, 16, "%s", spelling);
    return (size_t)snprintf(into, 16, "\\u%04x", character);
}

/* Writes one character, escaped if it is invalid or a control, into `into`. Returns its columns. */
static size_t show_character(uint32_t character, bool valid, bool is_ascii, char into[static 16])
{
    static const char letters[] = "abtnvfr"; /* from 0x07 to 0x0D */

    if (valid && !utf8_is_control(character)) {
        if (is_ascii && character > 0x7F)
            return spell_in_ascii(character, into);
        into[utf8_encode(character, into)] = '\0';
        return utf8_columns(character);
    }
    if (valid && character >= 0x07 && character <= 0x0D)
        return (size_t)snprintf(into, 16, "\\%c", letters[character - 0x07]);
    if (valid && character > 0xFF)
        return (size_t)snprintf(into, 16, "\\u%04x", character);
    return (size_t)snprintf(into, 16, "\\x%02x", character);
}

static size_t append_visible(struct text *text, const char *bytes, size_t length,
                             size_t max_columns, bool is_ascii)
{
    /* A narrow column has room for only a part of "...". */
    size_t mark_columns = is_ascii ? MIN(max_columns, (size_t)3) : 1;
    size_t columns = 0;
    size_t cut_length = text->length, cut_columns = 0; /* where the mark still fits */

    for (size_t i = 0; i < length;) {
        uint32_t character;
        size_t size = utf8_decode(bytes + i, length - i, &character);
        char shown[16];

        if (!size)
            character = (unsigned char)bytes[i];
        size_t width = show_character(character, size > 0, is_ascii, shown);
        if (columns + width > max_columns) {
            if (!max_columns)
                return columns;
            text->length = cut_length;
            if (is_ascii)
                text_append_repeated(text, '.', mark_columns);
            else
                text_append_string(text, "…");
            return cut_columns + mark_columns;
        }
        text_append_string(text, shown);
        columns += width;
        if (columns <= max_columns - mark_columns) {
            cut_length = text->length;
            cut_columns = columns;
        }
        i += size ? size : 1;
    }
    return columns;
}

size_t text_append_visible(struct text *text, const char *bytes, size_t length, size_t max_columns)
{
    return append_visible(text, bytes, length, max_columns, false);
}

size_t text_append_visible_ascii(struct text *text, const char *bytes, size_t length,
                                 size_t max_columns)
{
    return append_visible(text, bytes, length, max_columns, true);
}

void text_to_ascii(struct text *text, size_t start)
{
    _cleanup_text_ struct text ascii = {0};

    for (size_t i = start; i < text->length;) {
        uint32_t character;
        size_t size = utf8_decode(text->bytes + i, text->length - i, &character);
        char shown[16];

        if (size == 1) {
            text_append_char(&ascii, text->bytes[i]);
        } else {
            if (size)
                spell_in_ascii(character, shown);
            else
                snprintf(shown, sizeof(shown), "\\x%02x", (unsigned char)text->bytes[i]);
            text_append_string(&ascii, shown);
        }
        i += size ? size : 1;
    }
    if (text->length > start)
        text->length = start;
    if (text->error == 0)
        text->error = text_error(&ascii);
    text_append(text, text_string(&ascii), ascii.length);
}

int text_error(const struct text *text)
{
    return text->error;
}

const char *text_string(const struct text *text)
{
    return text->bytes ? text->bytes : "";
}

void text_reset(struct text *text)
{
    text->length = 0;
    text->error = 0;
    if (text->bytes)
        text->bytes[0] = '\0';
}

void text_done(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}

bool text_is_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}
