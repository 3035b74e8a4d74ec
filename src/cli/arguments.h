/* The command line after the verb: options, which a table describes, and other arguments (words).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

struct command_option {
    const char *name;     /* without the dashes */
    char short_name;      /* 0: none */
    const char *argument; /* name of its value, for help and man page; NULL: a flag */
    const char *help;     /* one sentence, for both */
    const char *more;     /* further sentences for the man page; NULL: none */
    bool is_repeatable;   /* each value counts; of other options, the last value counts */
    const char *old_name; /* an older spelling, accepted but not shown; NULL: none */
    const char *instead;  /* not an option: the error suggests this; NULL: an option */
};

/* Follows the sentence of a repeatable option. */
#define OPTION_IS_REPEATABLE "May be repeated."

#define ARGUMENTS_MAX_OPTIONS 32

struct arguments {
    int count; /* words that are not options */
    char **words;
    int before_dashes; /* number of words before `--`; `count` if there is no `--` */
    struct {
        const char *name;
        const char *value;
    } given[ARGUMENTS_MAX_OPTIONS];
    size_t given_count;
};

/* Parses `argv` with getopt_long(); argv[0] is the verb. Options may stand anywhere before `--`, or
 * with `stops_at_word` only before the first word. Any option may be given again, so that the
 * options of an alias can be overridden. Abbreviations are refused. Returns 0, or -EINVAL with the
 * reason in `error`. Moves the words to the front of `argv`, which the caller owns;
 * *ret points into it. */
int arguments_parse(int argc, char **argv, const struct command_option *options, size_t count,
                    bool stops_at_word, struct arguments *ret, char *error, size_t error_size);

/* The bytes of a word of the command line that a message shows. */
#define WORD_SHOWN_BYTES 60

/* Copies a word for a message, cut between characters and marked with "...". Returns `buffer`. */
const char *word_show(char buffer[static WORD_SHOWN_BYTES + sizeof("...")], const char *word);
/* The same in a buffer that is valid in the current block. */
#define SHOWN(word) word_show((char[WORD_SHOWN_BYTES + sizeof("...")]){0}, word)

/* The last value given for the option; NULL if it was not given or is a flag. */
const char *arguments_value(const struct arguments *arguments, const char *name);
/* Returns the values of a repeatable option in their order, then NULL. `*position` begins at 0. */
const char *arguments_next_value(const struct arguments *arguments, const char *name,
                                 size_t *position);
/* Whether the option was given. */
bool arguments_has(const struct arguments *arguments, const char *name);
