#include "model/field-format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

/* 812.4M, 12.3G: always three or four digits. */
static int format_mb(double mb, char *into, size_t size)
{
    static const char units[] = "MGTP";
    size_t unit = 0;

    for (; mb >= 1000 && unit < sizeof(units) - 2; unit++)
        mb /= 1024;
    return snprintf(into, size, "%.1f%c", mb, units[unit]);
}

/* 0.42, 59.3, 12:34, 5:12:34, 3d04h: similar width for all sizes. */
static int format_seconds(double seconds, char *into, size_t size)
{
    uint64_t whole = (uint64_t)seconds;

    if (seconds < 60)
        return snprintf(into, size, "%.2f", seconds);
    if (seconds < 3600)
        return snprintf(into, size, "%" PRIu64 ":%02" PRIu64, whole / 60, whole % 60);
    if (seconds < 86400)
        return snprintf(into, size, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, whole / 3600,
                        whole / 60 % 60, whole % 60);
    return snprintf(into, size, "%" PRIu64 "d%02" PRIu64 "h", whole / 86400, whole / 3600 % 24);
}

static int format_real(const struct field *field, double value, char *into, size_t size)
{
    if (!real_is_known(value))
        return snprintf(into, size, "-");
    switch (field->unit) {
    case UNIT_MB: return format_mb(value, into, size);
    case UNIT_SECONDS: return format_seconds(value, into, size);
    case UNIT_PERCENT: return snprintf(into, size, "%.1f", value);
    default: return snprintf(into, size, "%.*f", MAX(field_decimals(field), 0), value);
    }
}

static int format_int(const struct field *field, int64_t value, char *into, size_t size)
{
    if (!int_is_known(value))
        return snprintf(into, size, "-");
    if (field->unit == UNIT_BYTES)
        return format_mb((double)value / BYTES_PER_MB, into, size);
    return snprintf(into, size, "%" PRId64, value);
}

static int format_figure(const struct field *field, const void *value, char *into, size_t size)
{
    switch (field->type) {
    case FIELD_INT: return format_int(field, *(const int64_t *)value, into, size);
    case FIELD_REAL: return format_real(field, *(const double *)value, into, size);
    default: return snprintf(into, size, "-");
    }
}

bool field_is_text(const struct field *field)
{
    return field->type == FIELD_TEXT || field->type == FIELD_CHAR || field->type == FIELD_ENUM;
}

static size_t format_text(const struct field *field, const void *value, size_t max_columns,
                          struct text *out)
{
    const char letter[] = {*(const char *)value, '\0'};
    const char *text = field->type == FIELD_TEXT   ? *(const char *const *)value
                       : field->type == FIELD_CHAR ? letter
                                                   : field_enum_name(field, *(const int *)value);

    if (!text || !*text)
        text = "-";
    return text_append_visible(out, text, strlen(text), max_columns);
}

size_t field_format(const struct field *field, const void *object, size_t max_columns,
                    struct text *out)
{
    const void *value = (const char *)object + field->offset;
    char figure[64];

    if (field_is_text(field))
        return format_text(field, value, max_columns, out);
    int length = format_figure(field, value, figure, sizeof(figure));
    text_append(out, figure, (size_t)length);
    return (size_t)length;
}
