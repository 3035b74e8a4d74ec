#include "base/ascii.h"

#include "base/macros.h"
#include "base/utf8.h"

#define ELLIPSIS 0x2026

const char *ascii_find(uint32_t character)
{
    static const struct {
        uint32_t character;
        const char *ascii;
    } symbols[] = {
        {ELLIPSIS, "..."}, {0x00A0, " "}, /* no-break space */
        {0x00B1, "+-"},                   /* plus-minus sign */
        {0x00B7, "-"},                    /* middle dot */
        {0x00D7, "x"},                    /* multiplication sign */
        {0x00F7, "/"},                    /* division sign */
        {0x2013, "-"},                    /* en dash */
        {0x2014, "-"},                    /* em dash */
        {0x2018, "'"},                    /* quotation marks, single and double */
        {0x2019, "'"},     {0x201C, "\""}, {0x201D, "\""}, {0x2190, "<-"}, /* arrows */
        {0x2192, "->"},    {0x2212, "-"},                                  /* minus sign */
        {0x2248, "~"},                                                     /* almost equal to */
        {0x2264, "<="},    {0x2265, ">="},
    };

    for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
        if (symbols[i].character == character)
            return symbols[i].ascii;
    return NULL;
}

static bool is_graph(char c)
{
    return c > ' ' && c < 0x7F;
}

void ascii_append(struct text *out, const char *text, size_t length)
{
    size_t start = out->length;

    for (size_t i = 0; i < length;) {
        uint32_t character;
        size_t size = utf8_decode(text + i, length - i, &character);
        if (!size || character <= 0x7F) {
            text_append_char(out, size ? text[i] : '?');
            i++;
            continue;
        }
        const char *ascii = ascii_find(character);
        if (character == ELLIPSIS && out->length >= start + 2 &&
            is_graph(out->bytes[out->length - 1]) && is_graph(out->bytes[out->length - 2]))
            out->length -= 2;
        if (ascii)
            text_append_string(out, ascii);
        else
            text_append_repeated(out, '?', utf8_columns(character));
        i += size;
    }
}
