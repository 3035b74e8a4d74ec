/* Decodes answers that are arrays of records. */
#pragma once

#include "model/record-json.h"

/* Decodes `json`, an array of records. The items are placed in `arena`. Returns 0, -EBADMSG (with a
 * message in `error`) or -ENOMEM. */
int list_decode(const struct record *record, const char *json, size_t length, struct arena *arena,
                struct any_list *ret, struct decode_error *error);
