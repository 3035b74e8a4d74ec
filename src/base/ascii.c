#include "base/ascii.h"

#include <langinfo.h>
#include <locale.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"

#define ELLIPSIS 0x2026

bool ascii_locale_is_utf8(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);

    if (!locale) /* not installed: programs then run in the C locale */
        return false;
    bool is_utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return is_utf8;
}

const char *ascii_find(uint32_t character)
{
    static const struct {
        uint32_t character;
        const char *ascii;
    } symbols[] = {
        {0xB7, "-"},   /* middle dot */
        {0xD7, "x"},   /* multiplication sign */
        {0x2013, "-"}, /* en dash */
        {0x2014, "-"}, /* em dash */
        {0x2018, "'"}, /* quotation marks */
        {0x2019, "'"},     {0x201C, "\""}, {0x201D, "\""},
        {ELLIPSIS, "..."}, {0x2192, "->"}, /* arrow */
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
