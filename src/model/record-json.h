/* Encodes records as JSON and decodes them, using their field tables. */
#pragma once

#include "base/json-writer.h"
#include "model/field.h"

void record_encode(const struct record *record, const void *object, struct json_writer *json);
/* Whether an item of a list of the record is encoded. */
typedef bool (*record_item_fn)(void *context, const struct field *list, const void *item);
/* The same, but omits items of the record's own lists of records and of integers for which
 * `is_shown` returns false. */
void record_encode_part(const struct record *record, const void *object, record_item_fn is_shown,
                        void *context, struct json_writer *json);
/* Encodes one value without its name. */
void field_encode(const struct field *field, const void *value, struct json_writer *json);

/* Position and reason of an error: "processes[3].pid: expected an integer, not text". */
struct decode_error {
    char text[256];
};

/* Initialises `object` and decodes one JSON object into it; `arena` owns the texts and lists.
 * Unknown keys are ignored, because a newer writer may have more. Returns 0, -EBADMSG (with `error`
 * set) or -ENOMEM. On failure `object` contains only valid pointers. */
int record_decode(const struct record *record, const char *bytes, size_t length,
                  struct arena *arena, void *object, struct decode_error *error);
