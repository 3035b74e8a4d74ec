/* Formats a field's value as a table cell: short, with its unit, "-" for unknown. */
#pragma once

#include "base/text.h"
#include "model/field.h"

/* Appends the value without padding. Control characters of texts are escaped, and texts are
 * truncated to `max_columns`; numbers are never truncated. Returns the columns used. */
size_t field_format(const struct field *field, const void *object, size_t max_columns,
                    struct text *out);

/* Returns whether the field is text, which is aligned left; numbers are aligned right. */
bool field_is_text(const struct field *field);
