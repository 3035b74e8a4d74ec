/* Copies of records that own all their texts and lists. */
#pragma once

#include "model/field.h"

/* Copies an object that a field table describes; `arena` owns the texts and lists of the copy.
 * Returns 0, or -ENOMEM, after which *into must not be used. */
int record_copy(const struct record *record, const void *from, struct arena *arena, void *into);

/* The same for a list of texts. */
int text_list_copy(const struct text_list *from, struct arena *arena, struct text_list *into);
