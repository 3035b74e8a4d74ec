/* Writes JSON into a text buffer. Own code because it is on the hot path: building the same
 * snapshot with jansson took about seven times as long (docs/PERFORMANCE.md).
 *
 * The caller nests objects and arrays correctly; the writer adds the commas. NaN and infinity
 * become null, bad UTF-8 becomes U+FFFD, so that the output is always valid JSON. `out` records
 * errors (text_error()). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

struct json_writer {
    struct text *out;
    bool needs_comma;
};

void json_write_begin_object(struct json_writer *json);
void json_write_end_object(struct json_writer *json);
void json_write_begin_array(struct json_writer *json);
void json_write_end_array(struct json_writer *json);
void json_write_key(struct json_writer *json, const char *key);

void json_write_null(struct json_writer *json);
void json_write_bool(struct json_writer *json, bool value);
void json_write_int(struct json_writer *json, int64_t value);
/* Writes a number rounded to `decimals` places (0 to 9), without trailing zeros. */
void json_write_decimal(struct json_writer *json, double value, unsigned decimals);
/* Writes the shortest text that reads back as the same double. */
void json_write_real(struct json_writer *json, double value);
/* Writes a string; NULL becomes null. */
void json_write_string(struct json_writer *json, const char *string);
