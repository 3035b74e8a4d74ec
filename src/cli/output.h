/* What verbs print, and how it looks where it goes. */
#pragma once

#include "base/text.h"
#include "cli/command.h"
#include "model/field.h"
#include "report/style.h"

/* As wide as the terminal that stdout is, or `columns_elsewhere`; coloured there, unless NO_COLOR
 * is set. */
struct report_style output_style(size_t columns_elsewhere);

/* To stdout. 0, or 1 once it was said why it cannot be written. */
int output_text(const struct command *command, const struct text *out);
/* A record as a JSON object, or a list of them as an array, with a newline. */
int output_json(const struct command *command, const struct record *record, const void *object);
int output_json_list(const struct command *command, const struct record *record, const void *list);
