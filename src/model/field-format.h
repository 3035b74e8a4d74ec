/* A field's value as a cell of a table: short, by its unit, "-" for unknown. */
#pragma once

#include "base/text.h"
#include "model/field.h"

/* Appends the value, not padded. Texts are made visible and cut to `max_columns`; figures are as
 * short as their unit allows and never cut. Returns the columns used. */
size_t field_format(const struct field *field, const void *object, size_t max_columns,
                    struct text *out);

/* Figures stand right, texts left. */
bool field_is_text(const struct field *field);
