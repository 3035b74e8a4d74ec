/* The values of options that several verbs share. Each function leaves *ret unchanged if the option
 * is not given. It returns 0, or the verb's usage status after printing what is wrong. */
#pragma once

#include <stdint.h>

#include "cli/command.h"
#include "model/job.h"

/* The largest --limit. */
#define OPTION_LIMIT_MAX 1000000

/* Prints "--NAME: 'VALUE' PROBLEM", a long value shortened. Returns the verb's usage status. */
int option_invalid(const struct command *command, const char *name, const char *value,
                   const char *problem);

/* A time, such as 14:00 or "2 hours ago". */
int option_time(const struct command *command, const struct arguments *arguments, const char *name,
                double now, double *ret);
/* --since and --until; it is an error if --since is later than --until. */
int option_span(const struct command *command, const struct arguments *arguments, double now,
                double *ret_since, double *ret_until);
/* --type, redacted with the words of the configuration, as types are stored. *ret points to `into`.
 */
int option_type(const struct command *command, const struct command_context *context,
                const struct arguments *arguments, char into[static JOB_ID_MAX_BYTES + 1],
                const char **ret);
/* --limit */
int option_limit(const struct command *command, const struct arguments *arguments, size_t *ret);
/* A name of an enumeration, as in JSON. For outcomes, "failed" and "succeeded" are accepted too. */
int option_enum(const struct command *command, const struct arguments *arguments, const char *name,
                const struct field *field, int *ret);
/* The names of all values of a repeatable option, as a set of bits `1 << enumerator`. */
int option_enum_set(const struct command *command, const struct arguments *arguments,
                    const char *name, const struct field *field, unsigned *ret);
