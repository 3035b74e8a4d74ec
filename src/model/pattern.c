#include "model/pattern.h"

static const struct field pattern_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct pattern, member, type, __VA_ARGS__)
    FIELD(pattern_type, FIELD_TEXT, .required = true,
          .meaning = "RESOURCE_ANOMALY or RESOURCE_CORRELATION"),
    FIELD(pattern_name, FIELD_TEXT, .required = true, .meaning = "what it is known by"),
    FIELD(description, FIELD_TEXT, .meaning = "what was learned, in words"),
    FIELD(context_tags, FIELD_TEXTS, .meaning = "what it is about, as name:value"),
    FIELD(suggested_action, FIELD_TEXT, .meaning = "what to do about it"),
    FIELD(confidence, FIELD_REAL, .resolution = 0.0001, .meaning = "0 to 1"),
    FIELD(first_seen, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when it was first seen"),
    FIELD(last_seen, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when it was last seen"),
    FIELD(occurrences, FIELD_INT, .unit = UNIT_COUNT, .meaning = "how often"),
#undef FIELD
};
const struct record pattern_record = RECORD_OF(struct pattern, "Pattern", pattern_fields);
