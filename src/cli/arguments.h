/* The command line after the verb: options by a table, then words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

struct command_option {
    const char *name;     /* without the dashes */
    char short_name;      /* 0: none */
    const char *argument; /* what it takes, for the help; NULL: a flag */
    const char *help;
};

#define ARGUMENTS_MAX_OPTIONS 32

struct arguments {
    int count; /* words that are no options */
    char **words;
    int before_dashes; /* how many of them stand before a `--`; `count` if there is none */
    struct {
        const char *name;
        const char *value;
    } given[ARGUMENTS_MAX_OPTIONS];
    size_t given_count;
};

/* Parses `argv` (the first word after the verb on). Options may stand anywhere before `--`, or with
 * `stops_at_word` only before the first word. `--name=value`, `--name value` and `-n` are
 * understood; the last of several wins. 0, or -EINVAL with the reason in `error`. Words are moved
 * to the front of `argv`, which stays the caller's. */
int arguments_parse(int argc, char **argv, const struct command_option *options, size_t count,
                    bool stops_at_word, struct arguments *ret, char *error, size_t error_size);

/* NULL if not given, or a flag. */
const char *arguments_value(const struct arguments *arguments, const char *name);
bool arguments_has(const struct arguments *arguments, const char *name);
