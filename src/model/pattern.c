#include "model/pattern.h"

static const struct field pattern_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct pattern, member, type, __VA_ARGS__)
    FIELD(pattern_type, FIELD_TEXT, .required = true,
          .meaning = "RESOURCE_ANOMALY or RESOURCE_CORRELATION"),
    FIELD(pattern_name, FIELD_TEXT, .required = true, .meaning = "name of the pattern"),
    FIELD(description, FIELD_TEXT, .meaning = "description as text"),
    FIELD(context_tags, FIELD_TEXTS, .meaning = "properties, as name:value"),
    FIELD(suggested_action, FIELD_TEXT, .meaning = "recommended action"),
    FIELD(confidence, FIELD_REAL, .resolution = 0.0001, .meaning = "0 to 1"),
    FIELD(first_seen, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "time when it was first found"),
    FIELD(last_seen, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "time when it was last found"),
    FIELD(occurrences, FIELD_INT, .unit = UNIT_COUNT, .meaning = "how often it was found"),
#undef FIELD
};
const struct record pattern_record = RECORD_OF(struct pattern, "Pattern", pattern_fields);
