#include "client/admission-decode.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

static int find_level(const char *name)
{
    const struct field *field = record_find(&snapshot_record, "pressure_level");

    for (size_t i = 1; name && i < field->name_count; i++)
        if (strcmp(field->names[i], name) == 0)
            return (int)i;
    return PRESSURE_UNKNOWN;
}

int admission_decode(const char *json, size_t length, struct admission *ret)
{
    json_error_t syntax;
    _cleanup_(json_decrefp) json_t *answer =
        json_loadb(json, length, JSON_REJECT_DUPLICATES, &syntax);

    if (!answer)
        return json_error_code(&syntax) == json_error_out_of_memory ? -ENOMEM : -EBADMSG;
    const json_t *allowed = json_object_get(answer, "allowed");
    const json_t *delay = json_object_get(answer, "delay_seconds");
    const char *reason = json_string_value(json_object_get(answer, "reason"));
    if (!json_is_boolean(allowed) || (delay && !json_is_number(delay)))
        return -EBADMSG;

    struct admission admission = {
        .allowed = json_is_true(allowed),
        .delay_seconds = delay ? json_number_value(delay) : 0,
        .level = find_level(json_string_value(json_object_get(answer, "level"))),
    };
    if (reason)
        utf8_clean(admission.reason, sizeof(admission.reason), reason, strlen(reason));
    *ret = admission;
    return 0;
}
