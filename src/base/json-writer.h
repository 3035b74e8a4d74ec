/* Writes JSON into a text buffer. Ours because it is on the hot path: building the same snapshot
 * with jansson cost some seven times as much (docs/PERFORMANCE.md).
 *
 * The caller keeps the nesting right; commas are put by themselves. NaN and infinity become null,
 * bad UTF-8 becomes U+FFFD, so that what comes out is always valid JSON. Errors are the buffer's.
 */
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
/* Rounded to `decimals` places (0 to 9), trailing zeros left out. */
void json_write_decimal(struct json_writer *json, double value, unsigned decimals);
/* The shortest text that reads back as the same double. */
void json_write_real(struct json_writer *json, double value);
/* NULL becomes null. */
void json_write_string(struct json_writer *json, const char *string);
