/* Texts as they may be stored: without the values of secrets. */
#pragma once

#include "base/arena.h"
#include "model/field.h"

/* Replaces *text by a copy in `arena` that hides the values of `words`, if there are any in it.
 * NULL texts and no words are fine. 0 or -ENOMEM, with *text as it was. */
int secrets_hide(const struct text_list *words, struct arena *arena, const char **text);
