/* Copies of records that own all their texts and lists. */
#pragma once

#include "model/field.h"

/* Copies an object that a field table describes, with all that it points to placed in `arena`. 0 or
 * -ENOMEM, with *into in pieces. */
int record_copy(const struct record *record, const void *from, struct arena *arena, void *into);

/* The same for a list of texts. */
int text_list_copy(const struct text_list *from, struct arena *arena, struct text_list *into);
