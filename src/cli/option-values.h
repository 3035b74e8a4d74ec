/* The values of options that several verbs share. Each leaves *ret as it is if the option is not
 * given, and returns 0 or the verb's usage status once it was said what is wrong and how to write
 * it. */
#pragma once

#include <stdint.h>

#include "cli/command.h"
#include "model/field.h"

/* The largest --limit. */
#define OPTION_LIMIT_MAX 1000000

int option_time(const struct command *command, const struct arguments *arguments, const char *name,
                double now, double *ret);
/* --since and --until, in this order of time. */
int option_span(const struct command *command, const struct arguments *arguments, double now,
                double *ret_since, double *ret_until);
/* --type */
int option_type(const struct command *command, const struct arguments *arguments, const char **ret);
/* --limit */
int option_limit(const struct command *command, const struct arguments *arguments, size_t *ret);
/* One of the names of an enumeration. */
int option_word(const struct command *command, const struct arguments *arguments, const char *name,
                const struct field *field, int *ret);
