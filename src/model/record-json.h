/* Records to JSON and back, driven by their field tables. */
#pragma once

#include "base/json-writer.h"
#include "model/field.h"

void record_encode(const struct record *record, const void *object, struct json_writer *json);
/* One value, without its name. */
void field_encode(const struct field *field, const void *value, struct json_writer *json);

/* Where and why a text was refused, in words: "processes[3].pid: expected an integer, not text". */
struct decode_error {
    char text[256];
};

/* Reads one JSON object into `object`, which is initialised first; texts and lists are placed in
 * `arena`. Keys that the table does not know are passed over: a newer writer may have more.
 * 0, -EBADMSG (with `error` filled) or -ENOMEM. On failure `object` holds only valid pointers. */
int record_decode(const struct record *record, const char *bytes, size_t length,
                  struct arena *arena, void *object, struct decode_error *error);
