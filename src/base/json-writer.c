#include "base/json-writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static void write_separator(struct json_writer *json)
{
    if (json->needs_comma)
        text_append_char(json->out, ',');
    json->needs_comma = true;
}

static void open_bracket(struct json_writer *json, char bracket)
{
    write_separator(json);
    text_append_char(json->out, bracket);
    json->needs_comma = false;
}

static void close_bracket(struct json_writer *json, char bracket)
{
    text_append_char(json->out, bracket);
    json->needs_comma = true;
}

void json_write_begin_object(struct json_writer *json)
{
    open_bracket(json, '{');
}

void json_write_end_object(struct json_writer *json)
{
    close_bracket(json, '}');
}

void json_write_begin_array(struct json_writer *json)
{
    open_bracket(json, '[');
}

void json_write_end_array(struct json_writer *json)
{
    close_bracket(json, ']');
}

/* Escapes every character that a terminal might act on. This includes DEL and the C1 controls
 * (U+0080 to U+009F), which JSON would permit. */
static void append_escaped(struct text *out, const char *string, size_t length)
{
    size_t plain = 0; /* start of the run that needs no escape */

    for (size_t i = 0; i < length;) {
        unsigned char byte = (unsigned char)string[i];
        uint32_t character = byte;
        size_t size = byte < 0x80 ? 1 : utf8_decode(string + i, length - i, &character);
        bool is_control = character < 0x20 || (character >= 0x7F && character <= 0x9F);

        if (size && !is_control && byte != '"' && byte != '\\') {
            i += size;
            continue;
        }
        text_append(out, string + plain, i - plain);
        if (!size)
            text_append_string(out, "\xEF\xBF\xBD");
        else if (byte == '"' || byte == '\\')
            text_append(out, (const char[]){'\\', (char)byte}, 2);
        else if (byte == '\n')
            text_append(out, "\\n", 2);
        else if (byte == '\t')
            text_append(out, "\\t", 2);
        else
            text_printf(out, "\\u%04x", (unsigned)character);
        i += size ? size : 1;
        plain = i;
    }
    text_append(out, string + plain, length - plain);
}

void json_write_string(struct json_writer *json, const char *string)
{
    if (!string) {
        json_write_null(json);
        return;
    }
    write_separator(json);
    text_append_char(json->out, '"');
    append_escaped(json->out, string, strlen(string));
    text_append_char(json->out, '"');
}

void json_write_key(struct json_writer *json, const char *key)
{
    json_write_string(json, key);
    text_append_char(json->out, ':');
    json->needs_comma = false;
}

void json_write_null(struct json_writer *json)
{
    write_separator(json);
    text_append(json->out, "null", 4);
}

void json_write_bool(struct json_writer *json, bool value)
{
    write_separator(json);
    text_append_string(json->out, value ? "true" : "false");
}

static void append_unsigned(struct text *out, uint64_t value)
{
    char digits[20];
    size_t start = sizeof(digits);

    do {
        digits[--start] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    text_append(out, digits + start, sizeof(digits) - start);
}

void json_write_int(struct json_writer *json, int64_t value)
{
    write_separator(json);
    if (value < 0)
        text_append_char(json->out, '-');
    append_unsigned(json->out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_write_decimal(struct json_writer *json, double value, unsigned decimals)
{
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    double scaled = round(fabs(value) * powers[decimals]);

    /* Up to 2^51 the written digits read back as the same value. Above that, two roundings (of the
     * parsed text and of the product here) may change the last digit. */
    if (!(scaled < 2251799813685248.0)) {
        json_write_real(json, value);
        return;
    }

    write_separator(json);
    uint64_t whole = (uint64_t)scaled;
    uint64_t unit = (uint64_t)powers[decimals];
    if (value < 0 && whole)
        text_append_char(json->out, '-');
    append_unsigned(json->out, whole / unit);

    uint64_t fraction = whole % unit;
    if (!fraction)
        return;
    text_append_char(json->out, '.');
    for (; fraction; fraction %= unit) {
        unit /= 10;
        text_append_char(json->out, (char)('0' + fraction / unit));
    }
}

/* printf uses the decimal point of the locale, which may be any text; JSON requires a dot. */
static void append_real(struct text *out, const char *digits)
{
    bool is_in_point = false;

    for (; *digits; digits++) {
        bool is_number = strchr("0123456789+-e", *digits) != NULL;
        if (is_number || !is_in_point)
            text_append_char(out, is_number ? *digits : '.');
        is_in_point = !is_number;
    }
}

void json_write_real(struct json_writer *json, double value)
{
    char shortest[32];

    if (!isfinite(value)) {
        json_write_null(json);
        return;
    }
    if (value == 0)
        value = 0; /* -0 would read back as the integer 0 */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(shortest, sizeof(shortest), "%.*g", digits, value);
        if (strtod(shortest, NULL) == value)
            break;
    }
    write_separator(json);
    append_real(json->out, shortest);
}
