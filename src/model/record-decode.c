#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/number.h"
#include "model/record-json.h"

/* The decoder's position for error messages: a linked list from the innermost field outwards. */
struct place {
    const struct place *outer;
    const char *name; /* NULL: an array index */
    size_t index;
};

struct decoder {
    struct arena *arena;
    struct decode_error *error;
};

static size_t format_place(const struct place *place, char *into, size_t size)
{
    if (!place)
        return 0;

    size_t used = format_place(place->outer, into, size);
    if (used >= size)
        return used;
    int n = place->name ? snprintf(into + used, size - used, "%s%s", used ? "." : "", place->name)
                        : snprintf(into + used, size - used, "[%zu]", place->index);
    return used + (size_t)n;
}

static int fail_expected(struct decoder *decoder, const struct place *place, const char *expected,
                         const json_t *found)
{
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",  [JSON_STRING] = "text",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a fraction", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
    };
    char path[160];

    if (format_place(place, path, sizeof(path)) == 0)
        snprintf(path, sizeof(path), "top level");
    snprintf(decoder->error->text, sizeof(decoder->error->text), "%s: expected %s, found %s", path,
             expected, found ? kinds[json_typeof(found)] : "nothing");
    return -EBADMSG;
}

static int decode_object(struct decoder *decoder, const struct place *place,
                         const struct record *record, json_t *json, void *object);

static int decode_int(struct decoder *decoder, const struct place *place, const json_t *json,
                      int64_t *ret)
{
    if (!json_is_integer(json))
        return fail_expected(decoder, place, "an integer", json);
    if (!int_is_known(json_integer_value(json)))
        return fail_expected(decoder, place, "a larger integer", json);
    *ret = json_integer_value(json);
    return 0;
}

static int decode_real(struct decoder *decoder, const struct place *place, const json_t *json,
                       double *ret)
{
    if (!json_is_number(json))
        return fail_expected(decoder, place, "a number", json);
    *ret = json_number_value(json);
    return 0;
}

static int decode_text(struct decoder *decoder, const struct place *place, const json_t *json,
                       const char **ret)
{
    if (!json_is_string(json))
        return fail_expected(decoder, place, "text", json);
    *ret = arena_copy(decoder->arena, json_string_value(json), json_string_length(json));
    return *ret ? 0 : -ENOMEM;
}

static int decode_char(struct decoder *decoder, const struct place *place, const json_t *json,
                       char *ret)
{
    if (!json_is_string(json) || json_string_length(json) != 1 ||
        (unsigned char)json_string_value(json)[0] >= 0x80)
        return fail_expected(decoder, place, "one character", json);
    *ret = json_string_value(json)[0];
    return 0;
}

static int decode_enum(struct decoder *decoder, const struct place *place,
                       const struct field *field, const json_t *json, int *ret)
{
    for (size_t i = 1; json_is_string(json) && i < field->name_count; i++)
        if (strcmp(json_string_value(json), field->names[i]) == 0) {
            *ret = (int)i;
            return 0;
        }
    return fail_expected(decoder, place, "a known word", json);
}

static int decode_bool(struct decoder *decoder, const struct place *place, const json_t *json,
                       int *ret)
{
    if (!json_is_boolean(json))
        return fail_expected(decoder, place, "true or false", json);
    *ret = truth_of(json_is_true(json));
    return 0;
}

/* Allocates `count` items in the arena. An empty list gets an address, because NULL means unknown
 * for some fields. */
static void *list_room(struct decoder *decoder, size_t count, size_t item_size)
{
    return arena_alloc(decoder->arena, count ? count * item_size : 1);
}

typedef int (*decode_item_fn)(struct decoder *decoder, const struct place *place,
                              const struct record *record, json_t *json, void *item);

static int decode_array(struct decoder *decoder, const struct place *place, const json_t *json,
                        size_t item_size, decode_item_fn decode_item, const struct record *record,
                        struct any_list *ret)
{
    if (!json_is_array(json))
        return fail_expected(decoder, place, "an array", json);

    size_t count = json_array_size(json);
    struct any_list list = {.items = list_room(decoder, count, item_size), .count = count};
    if (!list.items)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct place item_place = {.outer = place, .index = i};
        int r = decode_item(decoder, &item_place, record, json_array_get(json, i),
                            (char *)list.items + i * item_size);
        if (r < 0)
            return r;
    }
    *ret = list;
    return 0;
}

static int decode_int_item(struct decoder *decoder, const struct place *place,
                           const struct record *record _unused_, json_t *json, void *item)
{
    return decode_int(decoder, place, json, item);
}

static int decode_text_item(struct decoder *decoder, const struct place *place,
                            const struct record *record _unused_, json_t *json, void *item)
{
    return decode_text(decoder, place, json, item);
}

static int decode_keyed(struct decoder *decoder, const struct place *place,
                        const struct record *record, json_t *json, struct any_list *ret)
{
    const struct record rest = {
        .size = record->size, .fields = record->fields + 1, .field_count = record->field_count - 1};
    if (!json_is_object(json))
        return fail_expected(decoder, place, "an object", json);

    struct any_list list = {.items = list_room(decoder, json_object_size(json), record->size)};
    if (!list.items)
        return -ENOMEM;

    const char *key;
    json_t *value;
    json_object_foreach (json, key, value) {
        const struct place item_place = {.outer = place, .name = key};
        char *item = (char *)list.items + list.count++ * record->size;
        int64_t *item_key = (int64_t *)(item + record->fields[0].offset);
        if (number_parse_int(key, item_key) < 0 || !int_is_known(*item_key))
            return fail_expected(decoder, &item_place, "a number as key", NULL);
        int r = decode_object(decoder, &item_place, &rest, value, item);
        if (r < 0)
            return r;
    }
    *ret = list;
    return 0;
}

static int decode_tally(struct decoder *decoder, const struct place *place, json_t *json,
                        struct tally_list *ret)
{
    if (!json_is_object(json))
        return fail_expected(decoder, place, "an object", json);

    struct tally_list list = {.items =
                                  list_room(decoder, json_object_size(json), sizeof(struct tally))};
    if (!list.items)
        return -ENOMEM;

    const char *key;
    json_t *value;
    json_object_foreach (json, key, value) {
        const struct place item_place = {.outer = place, .name = key};
        struct tally *item = &list.items[list.count++];
        item->name = arena_strdup(decoder->arena, key);
        if (!item->name)
            return -ENOMEM;
        int r = decode_real(decoder, &item_place, value, &item->value);
        if (r < 0)
            return r;
    }
    *ret = list;
    return 0;
}

static int decode_field(struct decoder *decoder, const struct place *place,
                        const struct field *field, json_t *json, void *value)
{
    switch (field->type) {
    case FIELD_INT: return decode_int(decoder, place, json, value);
    case FIELD_REAL: return decode_real(decoder, place, json, value);
    case FIELD_TEXT: return decode_text(decoder, place, json, value);
    case FIELD_CHAR: return decode_char(decoder, place, json, value);
    case FIELD_ENUM: return decode_enum(decoder, place, field, json, value);
    case FIELD_BOOL: return decode_bool(decoder, place, json, value);
    case FIELD_INLINE:
    case FIELD_RECORD: return decode_object(decoder, place, field->record, json, value);
    case FIELD_RECORDS:
        return decode_array(decoder, place, json, field->record->size, decode_object, field->record,
                            value);
    case FIELD_KEYED: return decode_keyed(decoder, place, field->record, json, value);
    case FIELD_INTS:
        return decode_array(decoder, place, json, sizeof(int64_t), decode_int_item, NULL, value);
    case FIELD_TEXTS:
        return decode_array(decoder, place, json, sizeof(char *), decode_text_item, NULL, value);
    case FIELD_TALLY: return decode_tally(decoder, place, json, value);
    }
    return -EINVAL;
}

/* `outer`: the record that contains this one inline; NULL: none. */
static int decode_fields(struct decoder *decoder, const struct place *place,
                         const struct record *record, const struct record *outer, json_t *json,
                         void *object)
{
    int r = 0;

    for (size_t i = 0; i < record->field_count && r == 0; i++) {
        const struct field *field = &record->fields[i];
        const struct place field_place = {.outer = place, .name = field->name};
        void *member = (char *)object + field->offset;
        json_t *value = json_object_get(json, field->name);

        if (field->type == FIELD_INLINE) {
            r = decode_fields(decoder, place, field->record, record, json, member);
            continue;
        }
        if (!value && field->alias && !(outer && record_find(outer, field->alias)))
            value = json_object_get(json, field->alias);
        if (value && !json_is_null(value))
            r = decode_field(decoder, &field_place, field, value, member);
        else if (field->required || (field->key_required && !value))
            r = fail_expected(decoder, &field_place, field_type_name(field->type), value);
    }
    return r;
}

static int decode_object(struct decoder *decoder, const struct place *place,
                         const struct record *record, json_t *json, void *object)
{
    record_init(record, object);
    if (!json_is_object(json))
        return fail_expected(decoder, place, "an object", json);
    return decode_fields(decoder, place, record, NULL, json, object);
}

int record_decode(const struct record *record, const char *bytes, size_t length,
                  struct arena *arena, void *object, struct decode_error *error)
{
    struct decoder decoder = {.arena = arena, .error = error};
    json_error_t syntax = {0}; /* `object` may stay like this if memory runs out */

    record_init(record, object);
    _cleanup_(json_decrefp) json_t *json =
        json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &syntax);
    if (!json) {
        if (!*syntax.text || json_error_code(&syntax) == json_error_out_of_memory)
            return -ENOMEM;
        snprintf(error->text, sizeof(error->text), "line %d, column %d: %s", syntax.line,
                 syntax.column, syntax.text);
        return -EBADMSG;
    }
    return decode_object(&decoder, NULL, record, json, object);
}
