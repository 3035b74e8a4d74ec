#include "base/utf8.h"

#include <string.h>

#include "base/macros.h"

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

size_t utf8_decode(const char *text, size_t length, uint32_t *ret_character)
{
    const unsigned char *bytes = (const unsigned char *)text;
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size;
    uint32_t character;

    if (bytes[0] < 0x80) {
        *ret_character = bytes[0];
        return 1;
    }
    if ((bytes[0] & 0xE0) == 0xC0) {
        size = 2;
        character = bytes[0] & 0x1F;
    } else if ((bytes[0] & 0xF0) == 0xE0) {
        size = 3;
        character = bytes[0] & 0x0F;
    } else if ((bytes[0] & 0xF8) == 0xF0) {
        size = 4;
        character = bytes[0] & 0x07;
    } else {
        return 0;
    }
    if (size > length)
        return 0;

    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xC0) != 0x80)
            return 0;
        character = character << 6 | (bytes[i] & 0x3F);
    }
    if (character < smallest[size] || character > 0x10FFFF ||
        (character >= 0xD800 && character <= 0xDFFF))
        return 0;

    *ret_character = character;
    return size;
}

size_t utf8_encode(uint32_t character, char ret_bytes[static 4])
{
    if (character < 0x80) {
        ret_bytes[0] = (char)character;
        return 1;
    }
    if (character < 0x800) {
        ret_bytes[0] = (char)(0xC0 | character >> 6);
        ret_bytes[1] = (char)(0x80 | (character & 0x3F));
        return 2;
    }
    if (character < 0x10000) {
        ret_bytes[0] = (char)(0xE0 | character >> 12);
        ret_bytes[1] = (char)(0x80 | (character >> 6 & 0x3F));
        ret_bytes[2] = (char)(0x80 | (character & 0x3F));
        return 3;
    }
    ret_bytes[0] = (char)(0xF0 | character >> 18);
    ret_bytes[1] = (char)(0x80 | (character >> 12 & 0x3F));
    ret_bytes[2] = (char)(0x80 | (character >> 6 & 0x3F));
    ret_bytes[3] = (char)(0x80 | (character & 0x3F));
    return 4;
}

bool utf8_valid(const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        uint32_t character;
        size_t size = utf8_decode(text + i, length - i, &character);
        if (!size)
            return false;
        i += size;
    }
    return true;
}

size_t utf8_clean(char *into, size_t capacity, const char *text, size_t length)
{
    size_t used = 0;

    for (size_t i = 0; i < length;) {
        uint32_t character;
        size_t size = utf8_decode(text + i, length - i, &character);
        const char *from = size ? text + i : replacement;
        size_t from_size = size ? size : sizeof(replacement) - 1;

        if (used + from_size >= capacity)
            break;
        memcpy(into + used, from, from_size);
        used += from_size;
        i += size ? size : 1;
    }
    into[used] = '\0';
    return used;
}

struct range {
    uint32_t first, last;
};

static bool in_ranges(uint32_t character, const struct range *ranges, size_t count)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (character < ranges[middle].first)
            high = middle;
        else if (character > ranges[middle].last)
            low = middle + 1;
        else
            return true;
    }
    return false;
}

unsigned utf8_columns(uint32_t character)
{
    /* The blocks that are common on a terminal (Unicode 15, EastAsianWidth.txt and combining
     * marks). libc's wcwidth needs a locale, which may not be installed. */
    static const struct range combining[] = {
        {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
        {0x06D6, 0x06DC}, {0x0900, 0x0902}, {0x093C, 0x093C}, {0x0941, 0x0948}, {0x0E31, 0x0E31},
        {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200D},
        {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF},
    };
    static const struct range wide[] = {
        {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x25FD, 0x25FE},
        {0x2614, 0x2615},   {0x2648, 0x2653},   {0x26AA, 0x26AB},   {0x26BD, 0x26BE},
        {0x2705, 0x2705},   {0x270A, 0x270B},   {0x2728, 0x2728},   {0x274C, 0x274C},
        {0x2795, 0x2797},   {0x2B1B, 0x2B1C},   {0x2E80, 0x303E},   {0x3041, 0x33FF},
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},   {0xA960, 0xA97F},
        {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
        {0xFFE0, 0xFFE6},   {0x16FE0, 0x18CFF}, {0x1AFF0, 0x1B2FF}, {0x1F300, 0x1F64F},
        {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD},
    };

    if (in_ranges(character, combining, ARRAY_SIZE(combining)))
        return 0;
    return in_ranges(character, wide, ARRAY_SIZE(wide)) ? 2 : 1;
}

bool utf8_is_control(uint32_t character)
{
    return character < 0x20 || (character >= 0x7F && character <= 0x9F) ||
           (character >= 0x200E && character <= 0x200F) || character == 0x061C ||
           (character >= 0x2028 && character <= 0x202E) ||
           (character >= 0x2066 && character <= 0x2069);
}

char *utf8_clean_copy_bytes(struct arena *arena, const char *bytes, size_t length)
{
    /* Each bad byte becomes U+FFFD, which has three. */
    size_t capacity = utf8_valid(bytes, length) ? length + 1 : 3 * length + 1;
    char *copy = arena_alloc(arena, capacity);

    if (copy)
        utf8_clean(copy, capacity, bytes, length);
    return copy;
}

char *utf8_clean_copy(struct arena *arena, const char *text)
{
    return utf8_clean_copy_bytes(arena, text, strlen(text));
}
