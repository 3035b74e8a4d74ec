/* A summary as JSON, and back. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "lib/errors.h"
#include "model/record-json.h"
#include "model/resource-summary.h"

/* A summary is much shorter. */
#define JSON_MAX_BYTES (1024 * 1024)

/* Whether all required figures are finite; others become null, which could not be read back. */
static bool has_required_figures(const struct sonde_summary *summary)
{
    const struct record *record = &resource_summary_record;

    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        const void *value = (const char *)summary + field->offset;
        if (field->required && field->type == FIELD_REAL && !isfinite(*(const double *)value))
            return false;
    }
    return true;
}

/* Returns the name of the first negative figure except memory_growth_mb, or NULL. */
static const char *find_negative(const struct sonde_summary *summary)
{
    const struct record *record = &resource_summary_record;

    for (size_t i = 0; i < record->field_count; i++) {
        const struct field *field = &record->fields[i];
        const void *value = (const char *)summary + field->offset;
        bool is_negative =
            field->type == FIELD_REAL ? *(const double *)value < 0 : *(const int64_t *)value < 0;
        if (is_negative && field->offset != offsetof(struct sonde_summary, memory_growth_mb))
            return field->name;
    }
    return NULL;
}

int sonde_summary_to_json(const struct sonde_summary *summary, char **ret)
{
    struct text text = {0};
    struct json_writer json = {.out = &text};

    if (!has_required_figures(summary) || find_negative(summary))
        return -EINVAL;
    record_encode(&resource_summary_record, summary, &json);
    int r = text_error(&text);
    if (r < 0) {
        text_done(&text);
        return r;
    }
    *ret = text.bytes;
    return 0;
}

int sonde_summary_from_json(const char *json, size_t length, struct sonde_summary *ret,
                            struct sonde_error *error)
{
    struct arena arena = {0}; /* stays empty: a summary has no strings */
    struct sonde_summary summary;
    struct decode_error why;

    if (length > JSON_MAX_BYTES)
        return error_set(error, -EBADMSG, "the text is longer than %d bytes", JSON_MAX_BYTES);
    int r = record_decode(&resource_summary_record, json, length, &arena, &summary, &why);
    if (r == -EBADMSG)
        return error_set(error, r, "%s", why.text);
    if (r < 0)
        return error_set(error, r, "out of memory");
    const char *negative = find_negative(&summary);
    if (negative)
        return error_set(error, -EBADMSG, "%s: is negative, but must be 0 or more", negative);
    *ret = summary;
    return 0;
}

void sonde_free(void *memory)
{
    free(memory);
}
