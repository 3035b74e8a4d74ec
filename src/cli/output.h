/* Prints the output of verbs. */
#pragma once

#include "base/text.h"
#include "cli/command.h"
#include "model/field.h"
#include "report/style.h"

/* The style of stdout: as wide as the terminal, or `columns_elsewhere`; coloured on a terminal
 * unless NO_COLOR is set; ASCII unless the locale is UTF-8. */
struct report_style output_style(size_t columns_elsewhere);

/* The functions below write to stdout and return 0, or 1 after printing why they could not.
 * output_text() is for people: it writes ASCII where the locale is not UTF-8. */
int output_text(const struct command *command, const struct text *out);
/* Write a record as a JSON object, or a list of records as an array, with a newline. */
int output_json(const struct command *command, const struct record *record, const void *object);
int output_json_list(const struct command *command, const struct record *record, const void *list);

/* Replaces the content by ASCII where the locale is not UTF-8. */
void output_adapt(struct text *text);
