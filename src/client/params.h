/* Writes the parameters of a request. Parameters that have no value are omitted. */
#pragma once

#include <stdint.h>

#include "base/json-writer.h"

/* Omitted if it is NULL or empty. */
void params_write_text(struct json_writer *json, const char *key, const char *value);
/* Omitted if it is unknown. */
void params_write_int(struct json_writer *json, const char *key, int64_t value);
void params_write_real(struct json_writer *json, const char *key, double value);
/* Writes `true`. */
void params_write_true(struct json_writer *json, const char *key);
