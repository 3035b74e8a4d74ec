/* Decodes answers that are arrays of records. */
#pragma once

#include "model/record-json.h"

/* `json` is an array of records. The items are placed in `arena`. 0, -EBADMSG (with `error` filled)
 * or -ENOMEM. */
int list_decode(const struct record *record, const char *json, size_t length, struct arena *arena,
                struct any_list *ret, struct decode_error *error);
