#include <stdio.h>

#include "model/record-json.h"

/* What is shown of the lists of a record; NULL: everything. */
struct part {
    record_item_fn is_shown;
    void *context;
};

static bool shows(const struct part *part, const struct field *list, const void *item)
{
    return !part || part->is_shown(part->context, list, item);
}

static void encode_real(const struct field *field, double value, struct json_writer *json)
{
    int decimals = field_decimals(field);

    if (decimals < 0)
        json_write_real(json, value);
    else
        json_write_decimal(json, value, (unsigned)decimals);
}

static void encode_int(int64_t value, struct json_writer *json)
{
    if (int_is_known(value))
        json_write_int(json, value);
    else
        json_write_null(json);
}

static void encode_bool(int truth, struct json_writer *json)
{
    if (truth == TRUTH_UNKNOWN)
        json_write_null(json);
    else
        json_write_bool(json, truth == TRUTH_YES);
}

static void encode_records(const struct field *field, const struct any_list *list,
                           const struct part *part, struct json_writer *json)
{
    const struct record *record = field->record;

    json_write_begin_array(json);
    for (size_t i = 0; i < list->count; i++) {
        const void *item = (const char *)list->items + i * record->size;
        if (shows(part, field, item))
            record_encode(record, item, json);
    }
    json_write_end_array(json);
}

/* The key is the record's first field, an integer; the object itself omits it. */
static void encode_keyed(const struct record *record, const struct any_list *list,
                         struct json_writer *json)
{
    const struct record rest = {.name = record->name,
                                .size = record->size,
                                .fields = record->fields + 1,
                                .field_count = record->field_count - 1};
    char key[24];

    json_write_begin_object(json);
    for (size_t i = 0; i < list->count; i++) {
        const char *item = (const char *)list->items + i * record->size;
        snprintf(key, sizeof(key), "%lld",
                 (long long)*(const int64_t *)(item + record->fields[0].offset));
        json_write_key(json, key);
        record_encode(&rest, item, json);
    }
    json_write_end_object(json);
}

static void encode_tally(const struct field *field, const struct tally_list *list,
                         struct json_writer *json)
{
    if (!list->items) {
        json_write_null(json);
        return;
    }
    json_write_begin_object(json);
    for (size_t i = 0; i < list->count; i++) {
        json_write_key(json, list->items[i].name);
        encode_real(field, list->items[i].value, json);
    }
    json_write_end_object(json);
}

static void encode_ints(const struct field *field, const struct int_list *list,
                        const struct part *part, struct json_writer *json)
{
    json_write_begin_array(json);
    for (size_t i = 0; i < list->count; i++)
        if (shows(part, field, &list->items[i]))
            encode_int(list->items[i], json);
    json_write_end_array(json);
}

static void encode_texts(const struct text_list *list, struct json_writer *json)
{
    json_write_begin_array(json);
    for (size_t i = 0; i < list->count; i++)
        json_write_string(json, list->items[i]);
    json_write_end_array(json);
}

static void encode_value(const struct field *field, const void *value, const struct part *part,
                         struct json_writer *json)
{
    switch (field->type) {
    case FIELD_INT: encode_int(*(const int64_t *)value, json); break;
    case FIELD_REAL: encode_real(field, *(const double *)value, json); break;
    case FIELD_TEXT: json_write_string(json, *(const char *const *)value); break;
    case FIELD_CHAR: {
        const char text[] = {*(const char *)value, '\0'};
        json_write_string(json, *text ? text : NULL);
        break;
    }
    case FIELD_ENUM: json_write_string(json, field_enum_name(field, *(const int *)value)); break;
    case FIELD_BOOL: encode_bool(*(const int *)value, json); break;
    case FIELD_INLINE: /* as a value of its own, it is an object */
    case FIELD_RECORD: record_encode(field->record, value, json); break;
    case FIELD_RECORDS: encode_records(field, value, part, json); break;
    case FIELD_KEYED: encode_keyed(field->record, value, json); break;
    case FIELD_INTS: encode_ints(field, value, part, json); break;
    case FIELD_TEXTS: encode_texts(value, json); break;
    case FIELD_TALLY: encode_tally(field, value, json); break;
    }
}

void field_encode(const struct field *field, const void *value, struct json_writer *json)
{
    encode_value(field, value, NULL, json);
}

/* `outer`: the record that contains this one inline; NULL: none. */
static void encode_fields(const struct record *record, const struct record *outer,
                          const void *object, const struct part *part, struct json_writer *json)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        const void *value = (const char *)object + field->offset;
        if (field->omit_unknown && !field_is_known(field, value))
            continue;
        if (field->type == FIELD_INLINE) {
            encode_fields(field->record, record, value, part, json);
            continue;
        }
        json_write_key(json, field->name);
        encode_value(field, value, part, json);
        if (field->alias && !(outer && record_find(outer, field->alias))) {
            json_write_key(json, field->alias);
            encode_value(field, value, part, json);
        }
    }
}

void record_encode(const struct record *record, const void *object, struct json_writer *json)
{
    json_write_begin_object(json);
    encode_fields(record, NULL, object, NULL, json);
    json_write_end_object(json);
}

void record_encode_part(const struct record *record, const void *object, record_item_fn is_shown,
                        void *context, struct json_writer *json)
{
    json_write_begin_object(json);
    encode_fields(record, NULL, object, &(struct part){is_shown, context}, json);
    json_write_end_object(json);
}
