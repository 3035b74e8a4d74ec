#include "model/field.h"

#include <string.h>

#include "base/macros.h"

static void field_init(const struct field *field, void *value)
{
    switch (field->type) {
    case FIELD_INT: *(int64_t *)value = INT_UNKNOWN; break;
    case FIELD_REAL: *(double *)value = REAL_UNKNOWN; break;
    case FIELD_TEXT: *(const char **)value = NULL; break;
    case FIELD_CHAR: *(char *)value = '\0'; break;
    case FIELD_ENUM:
    case FIELD_BOOL: *(int *)value = 0; break;
    case FIELD_RECORD:
    case FIELD_INLINE: record_init(field->record, value); break;
    case FIELD_RECORDS:
    case FIELD_KEYED:
    case FIELD_INTS:
    case FIELD_TEXTS:
    case FIELD_TALLY: *(struct any_list *)value = (struct any_list){0}; break;
    }
}

void record_init(const struct record *record, void *object)
{
    for (size_t i = 0; i < record->field_count; i++)
        field_init(&record->fields[i], (char *)object + record->fields[i].offset);
}

const char *field_first_name(const struct field *field)
{
    return field->alias ? field->alias : field->name;
}

bool field_is_known(const struct field *field, const void *value)
{
    switch (field->type) {
    case FIELD_INT: return int_is_known(*(const int64_t *)value);
    case FIELD_REAL: return real_is_known(*(const double *)value);
    case FIELD_TEXT: return *(const char *const *)value != NULL;
    case FIELD_CHAR: return *(const char *)value != '\0';
    case FIELD_ENUM:
    case FIELD_BOOL: return *(const int *)value != 0;
    case FIELD_RECORD:
    case FIELD_INLINE: return true;
    case FIELD_RECORDS:
    case FIELD_KEYED:
    case FIELD_INTS:
    case FIELD_TEXTS:
    case FIELD_TALLY: return ((const struct any_list *)value)->items != NULL;
    }
    return false;
}

const struct field *record_find(const struct record *record, const char *name)
{
    for (size_t i = 0; i < record->field_count; i++)
        if (strcmp(record->fields[i].name, name) == 0 ||
            (record->fields[i].alias && strcmp(record->fields[i].alias, name) == 0))
            return &record->fields[i];
    return NULL;
}

int field_decimals(const struct field *field)
{
    int decimals = 0;

    if (field->resolution == 0)
        return -1;
    /* 0.999, because 0.001 * 1000 may be slightly less than 1. */
    for (double step = field->resolution; step < 0.999 && decimals < 9; step *= 10)
        decimals++;
    return decimals;
}

const char *field_unit_name(enum field_unit unit)
{
    static const char *const names[] = {
        [UNIT_NONE] = "",        [UNIT_COUNT] = "count", [UNIT_PERCENT] = "%",
        [UNIT_MB] = "MiB",       [UNIT_BYTES] = "bytes", [UNIT_SECONDS] = "s",
        [UNIT_EPOCH] = "Unix s", [UNIT_CELSIUS] = "°C",  [UNIT_MHZ] = "MHz",
        [UNIT_WATT] = "W",
    };
    return names[unit];
}

const char *field_cost_name(enum field_cost cost)
{
    static const char *const names[] = {
        [COST_NONE] = "none",           [COST_CORE] = "every process, every tick",
        [COST_ONCE] = "once a process", [COST_EXTRA] = "job processes, every tick",
        [COST_TRACED] = "when traced",
    };
    return names[cost];
}

const char *field_type_name(enum field_type type)
{
    static const char *const names[] = {
        [FIELD_INT] = "integer",
        [FIELD_REAL] = "number",
        [FIELD_TEXT] = "text",
        [FIELD_CHAR] = "character",
        [FIELD_ENUM] = "word",
        [FIELD_BOOL] = "true or false",
        [FIELD_RECORD] = "object",
        [FIELD_INLINE] = "fields",
        [FIELD_RECORDS] = "list of objects",
        [FIELD_KEYED] = "object of objects",
        [FIELD_INTS] = "list of integers",
        [FIELD_TEXTS] = "list of texts",
        [FIELD_TALLY] = "object of numbers",
    };
    return names[type];
}

const char *field_enum_name(const struct field *field, int value)
{
    return value > 0 && (size_t)value < field->name_count ? field->names[value] : NULL;
}

const struct tally *tally_find(const struct tally_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}
