/* Text from processes on its way out: cleaned, made visible, as a JSON string. */
#include "fuzz.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json-writer.h"
#include "base/text.h"
#include "base/utf8.h"

/* Room for every byte as U+FFFD. */
static size_t cleaned_capacity(size_t length)
{
    return 3 * length + 1;
}

static void check_clean(const char *bytes, size_t length, size_t capacity)
{
    char *into = malloc(capacity);

    if (!into)
        return;
    size_t used = utf8_clean(into, capacity, bytes, length);
    assert(used < capacity && into[used] == '\0');
    assert(utf8_valid(into, used));
    assert(!utf8_valid(bytes, length) || memcmp(into, bytes, used) == 0);
    free(into);
}

/* Returns the columns. */
static size_t check_visible(const char *bytes, size_t length, size_t max_columns, bool after_some,
                            size_t whole_columns)
{
    static const char cut_mark[] = "…";
    _cleanup_text_ struct text out = {0};
    size_t columns = 0;

    if (after_some)
        text_append_string(&out, "before");
    size_t before = out.length;
    size_t said = text_append_visible(&out, bytes, length, max_columns);
    for (size_t i = before, size; i < out.length; i += size) {
        uint32_t character;
        size = utf8_decode(out.bytes + i, out.length - i, &character);
        assert(size && !utf8_is_control(character));
        columns += utf8_columns(character);
    }
    assert(columns == said);
    assert(columns <= max_columns);
    assert(strlen(text_string(&out)) == out.length);
    if (whole_columns > max_columns && max_columns)
        assert(out.length - before >= strlen(cut_mark) &&
               strcmp(out.bytes + out.length - strlen(cut_mark), cut_mark) == 0);
    return columns;
}

static void check_json(const char *bytes, size_t length)
{
    _cleanup_text_ struct text out = {0};
    struct json_writer json = {.out = &out};
    size_t capacity = cleaned_capacity(length);
    char *string = strndup(bytes, length), *cleaned = malloc(capacity);

    if (string && cleaned) {
        json_write_string(&json, string);
        json_t *value = json_loads(text_string(&out), JSON_DECODE_ANY, NULL);
        utf8_clean(cleaned, capacity, string, strlen(string));
        assert(value && strcmp(json_string_value(value), cleaned) == 0);
        json_decref(value);
    }
    free(string);
    free(cleaned);
}

/* The first byte is the room, the lowest bit of the second whether something stands before. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    if (length < 2)
        return 0;
    const char *text = (const char *)bytes + 2;

    check_clean(text, length - 2, (size_t)bytes[0] + 1);
    check_clean(text, length - 2, cleaned_capacity(length - 2));
    size_t whole = check_visible(text, length - 2, SIZE_MAX, bytes[1] & 1, 0);
    check_visible(text, length - 2, bytes[0], bytes[1] & 1, whole);
    check_json(text, length - 2);
    return 0;
}
