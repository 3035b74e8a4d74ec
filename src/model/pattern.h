/* Pattern: a stored finding about resource use. */
#pragma once

#include "model/field.h"

struct pattern {
    const char *pattern_type; /* RESOURCE_ANOMALY or RESOURCE_CORRELATION */
    const char *pattern_name;
    const char *description;
    struct text_list context_tags;
    const char *suggested_action;
    double confidence;
    double first_seen;
    double last_seen;
    int64_t occurrences;
};

struct pattern_list LIST(struct pattern);

extern const struct record pattern_record;
