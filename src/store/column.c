#include "store/column.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/json-writer.h"
#include "base/macros.h"
#include "model/record-json.h"
#include "model/tally-parse.h"
#include "store/rows.h"
#include "store/text-pool.h"

/* ---- the list ---- */

bool names_have(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static bool is_number_type(enum field_type type)
{
    return type == FIELD_INT || type == FIELD_REAL || type == FIELD_CHAR;
}

/* 1/0.01 is not exactly 100. A resolution below 1 divides 1 evenly. */
static double steps_of(const struct field *field)
{
    if (field->type != FIELD_REAL || field->resolution == 0)
        return 0;
    double steps = 1 / field->resolution;
    return field->resolution < 1 ? round(steps) : steps;
}

static void add_column(struct columns *columns, const struct field *field, size_t offset,
                       const char *prefix, enum column_form numbers, enum column_form texts)
{
    struct column *column = &columns->items[columns->count++];

    *column = (struct column){.field = field,
                              .offset = offset + field->offset,
                              .steps_per_unit = steps_of(field),
                              .form = COLUMN_PLAIN};
    if (is_number_type(field->type))
        column->form = numbers;
    else if (field->type == FIELD_TEXT || field->type == FIELD_RECORDS || field->type == FIELD_INTS)
        column->form = texts;
    snprintf(column->name, sizeof(column->name), "%s%s", prefix, field_first_name(field));
}

static void add_fields(struct columns *columns, const struct record *record, size_t offset,
                       const char *prefix, enum column_form numbers, enum column_form texts,
                       const char *const *left_out)
{
    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        char longer[48];

        if (names_have(left_out, field->name))
            continue;
        if (field->type != FIELD_RECORD) {
            add_column(columns, field, offset, prefix, numbers, texts);
            continue;
        }
        snprintf(longer, sizeof(longer), "%.20s%.20s_", prefix, field->name);
        add_fields(columns, field->record, offset + field->offset, longer, numbers, texts, NULL);
    }
}

void columns_add(struct columns *columns, const struct record *record, size_t offset,
                 enum column_form numbers, enum column_form texts, const char *const *left_out)
{
    add_fields(columns, record, offset, "", numbers, texts, left_out);
}

int columns_index(const struct columns *columns, const char *name)
{
    for (size_t i = 0; i < columns->count; i++)
        if (strcmp(columns->items[i].name, name) == 0)
            return (int)i;
    return -1;
}

const struct column *columns_find(const struct columns *columns, const char *name)
{
    int at = columns_index(columns, name);
    return at < 0 ? NULL : &columns->items[at];
}

bool column_is_number(const struct column *column)
{
    return is_number_type(column->field->type);
}

/* ---- SQL ---- */

void column_declare(const struct column *column, struct text *sql)
{
    enum field_type type = column->field->type;
    bool is_integer = column->form != COLUMN_PLAIN || type == FIELD_INT || type == FIELD_BOOL;
    bool is_real = type == FIELD_REAL;

    text_printf(sql, "\"%s\" %s", column->name, is_integer ? "INTEGER" : is_real ? "REAL" : "TEXT");
}

void column_express(const struct column *column, const char *alias, struct text *sql)
{
    if (column->is_absent)
        text_append_string(sql, "NULL");
    else if (column->form == COLUMN_STEPS && column->field->type == FIELD_CHAR)
        text_printf(sql, "CASE WHEN %s.\"%s\" IS NOT NULL THEN char(%s.\"%s\") END", alias,
                    column->name, alias, column->name);
    else if (column->form == COLUMN_STEPS && column->steps_per_unit != 0)
        text_printf(sql, "%s.\"%s\" / %.1f", alias, column->name, column->steps_per_unit);
    else
        column_select(column, alias, sql);
}

void column_select(const struct column *column, const char *alias, struct text *sql)
{
    if (column->is_absent)
        text_append_string(sql, "NULL");
    else if (column->form == COLUMN_SHARED)
        text_printf(sql, "(SELECT value FROM text WHERE text.id = %s.\"%s\")", alias, column->name);
    else
        text_printf(sql, "%s.\"%s\"", alias, column->name);
}

/* ---- values ---- */

/* A larger double does not fit into int64_t. */
#define STEPS_MAX 9.2e18

static int64_t real_to_steps(double value, double steps_per_unit)
{
    double steps = value * steps_per_unit;

    if (!isfinite(steps))
        return INT_UNKNOWN;
    return (int64_t)llround(MIN(MAX(steps, -STEPS_MAX), STEPS_MAX));
}

static double steps_to_real(int64_t steps, double steps_per_unit)
{
    /* Division, unlike multiplication by the resolution, gives the double nearest to the decimal.
     */
    return int_is_known(steps) ? (double)steps / steps_per_unit : REAL_UNKNOWN;
}

static const void *value_of(const struct column *column, const void *object)
{
    return (const char *)object + column->offset;
}

static int64_t tally_hash(const struct tally_list *list)
{
    uint64_t hash = HASH_START;

    if (!list->items)
        return INT_UNKNOWN;
    for (size_t i = 0; i < list->count; i++) {
        hash = hash * 31 + hash_text(list->items[i].name);
        hash = hash * 31 + hash_bytes((const char *)&list->items[i].value, sizeof(double));
    }
    return (int64_t)(hash >> 1);
}

int64_t column_code(const struct column *column, const void *object)
{
    const void *value = value_of(column, object);

    switch (column->field->type) {
    case FIELD_INT: return *(const int64_t *)value;
    case FIELD_REAL: return real_to_steps(*(const double *)value, column->steps_per_unit);
    case FIELD_CHAR: return *(const char *)value ? *(const char *)value : INT_UNKNOWN;
    case FIELD_ENUM: return *(const int *)value;
    case FIELD_BOOL: return *(const int *)value ? *(const int *)value == TRUTH_YES : INT_UNKNOWN;
    case FIELD_TALLY: return tally_hash(value);
    default: return INT_UNKNOWN;
    }
}

void column_bind_code(sqlite3_stmt *statement, int at, int64_t code)
{
    if (int_is_known(code))
        sqlite3_bind_int64(statement, at, code);
    else
        sqlite3_bind_null(statement, at);
}

void column_set_code(const struct column *column, int64_t code, void *object)
{
    void *value = (char *)object + column->offset;

    switch (column->field->type) {
    case FIELD_INT: *(int64_t *)value = code; break;
    case FIELD_REAL: *(double *)value = steps_to_real(code, column->steps_per_unit); break;
    case FIELD_CHAR: *(char *)value = int_is_known(code) ? (char)code : '\0'; break;
    default: break;
    }
}

/* ---- binding ---- */

double column_round(const struct column *column, double value)
{
    if (column->steps_per_unit == 0 || !isfinite(value))
        return value;
    return steps_to_real(real_to_steps(value, column->steps_per_unit), column->steps_per_unit);
}

static void bind_real(const struct column *column, double value, sqlite3_stmt *statement, int at)
{
    value = column_round(column, value);
    if (isfinite(value))
        sqlite3_bind_double(statement, at, value);
    else
        sqlite3_bind_null(statement, at);
}

/* SQLite copies the text. If that fails, the parameter would silently be NULL. */
static int bind_copy(const char *bytes, int length, sqlite3_stmt *statement, int at)
{
    int code = sqlite3_bind_text(statement, at, bytes, length, SQLITE_TRANSIENT);
    return code == SQLITE_OK ? 0 : code == SQLITE_TOOBIG ? -EMSGSIZE : -ENOMEM;
}

static int bind_string(const char *string, sqlite3_stmt *statement, int at)
{
    if (string)
        return bind_copy(string, -1, statement, at);
    sqlite3_bind_null(statement, at);
    return 0;
}

static int bind_shared(const char *string, struct text_pool *pool, sqlite3_stmt *statement, int at)
{
    int64_t id;

    if (!string) {
        sqlite3_bind_null(statement, at);
        return 0;
    }
    int r = text_pool_id(pool, string, &id);
    if (r == 0)
        sqlite3_bind_int64(statement, at, id);
    return r;
}

/* Lists as JSON. An empty list is NULL, except for a tally, where empty differs from unknown. */
static int bind_list(const struct column *column, const struct any_list *list,
                     struct text_pool *pool, sqlite3_stmt *statement, int at)
{
    bool is_null = column->field->type == FIELD_TALLY ? !list->items : !list->count;
    _cleanup_text_ struct text text = {0};
    struct json_writer json = {.out = &text};

    if (is_null) {
        sqlite3_bind_null(statement, at);
        return 0;
    }
    field_encode(column->field, list, &json);
    if (text_error(&text) < 0)
        return -ENOMEM;
    if (column->form == COLUMN_SHARED) {
        int64_t id;
        int r = text_pool_list_id(pool, text.bytes, &id);
        if (r == 0)
            sqlite3_bind_int64(statement, at, id);
        return r;
    }
    return bind_copy(text.bytes, (int)text.length, statement, at);
}

int column_bind(const struct column *column, const void *object, struct text_pool *pool,
                sqlite3_stmt *statement, int at)
{
    const void *value = value_of(column, object);

    if (column->form == COLUMN_STEPS) {
        column_bind_code(statement, at, column_code(column, object));
        return 0;
    }
    if (column->form == COLUMN_SHARED && column->field->type == FIELD_TEXT)
        return bind_shared(*(const char *const *)value, pool, statement, at);

    switch (column->field->type) {
    case FIELD_INT: column_bind_code(statement, at, *(const int64_t *)value); return 0;
    case FIELD_REAL: bind_real(column, *(const double *)value, statement, at); return 0;
    case FIELD_TEXT: return bind_string(*(const char *const *)value, statement, at);
    case FIELD_CHAR: {
        const char text[] = {*(const char *)value, '\0'};
        return bind_string(*text ? text : NULL, statement, at);
    }
    case FIELD_BOOL: column_bind_code(statement, at, column_code(column, object)); return 0;
    case FIELD_ENUM:
        return bind_string(field_enum_name(column->field, *(const int *)value), statement, at);
    default: return bind_list(column, value, pool, statement, at);
    }
}

int columns_bind(const struct columns *columns, const void *object, struct text_pool *pool,
                 sqlite3_stmt *statement, int at)
{
    int r = 0;

    for (size_t i = 0; i < columns->count && r == 0; i++)
        r = column_bind(&columns->items[i], object, pool, statement, at + (int)i);
    return r;
}

/* ---- reading ---- */

static int read_enum(const struct field *field, sqlite3_stmt *statement, int at, int *ret)
{
    const char *name;

    *ret = 0;
    int r = row_find_text(statement, at, &name);
    for (size_t i = 1; name && i < field->name_count; i++)
        if (strcmp(field->names[i], name) == 0)
            *ret = (int)i;
    return r;
}

/* Wraps the JSON in an object of one field, which record_decode() can read. */
static int read_list(const struct column *column, sqlite3_stmt *statement, int at,
                     struct arena *arena, void *object)
{
    const struct field *field = column->field;
    struct field moved = *field;
    const struct record one = {.name = field->name, .fields = &moved, .field_count = 1};
    _cleanup_text_ struct text text = {0};
    struct decode_error error;
    const char *json;

    moved.offset = column->offset;
    int r = row_find_text(statement, at, &json);
    if (r < 0 || !json)
        return r;
    if (field->type == FIELD_TALLY) {
        r = tally_parse_plain(json, arena, (void *)((char *)object + column->offset));
        if (r != 0)
            return MIN(r, 0);
    }
    text_printf(&text, "{\"%s\":%s}", field->name, json);
    if (text_error(&text) < 0)
        return -ENOMEM;
    return record_decode(&one, text.bytes, text.length, arena, object, &error);
}

int column_read(const struct column *column, sqlite3_stmt *statement, int at, struct arena *arena,
                void *object)
{
    void *value = (char *)object + column->offset;

    if (column->form == COLUMN_STEPS) {
        column_set_code(column, row_read_int(statement, at), object);
        return 0;
    }
    switch (column->field->type) {
    case FIELD_INT: *(int64_t *)value = row_read_int(statement, at); return 0;
    case FIELD_REAL: *(double *)value = row_read_real(statement, at); return 0;
    case FIELD_TEXT: return row_read_text(statement, at, arena, value);
    case FIELD_CHAR: {
        const char *text;
        int r = row_find_text(statement, at, &text);
        *(char *)value = text ? text[0] : '\0';
        return r;
    }
    case FIELD_ENUM: return read_enum(column->field, statement, at, value);
    case FIELD_BOOL: {
        int64_t code = row_read_int(statement, at);
        *(int *)value = int_is_known(code) ? truth_of(code != 0) : TRUTH_UNKNOWN;
        return 0;
    }
    default: return read_list(column, statement, at, arena, object);
    }
}
