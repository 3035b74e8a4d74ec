#include "cli/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"

struct parser {
    const struct command_option *options;
    size_t option_count;
    char *error;
    size_t error_size;
};

static const struct command_option *find_long(const struct parser *parser, const char *name,
                                              size_t length)
{
    for (size_t i = 0; i < parser->option_count; i++)
        if (strlen(parser->options[i].name) == length &&
            strncmp(parser->options[i].name, name, length) == 0)
            return &parser->options[i];
    return NULL;
}

static const struct command_option *find_short(const struct parser *parser, char letter)
{
    for (size_t i = 0; i < parser->option_count; i++)
        if (letter && parser->options[i].short_name == letter)
            return &parser->options[i];
    return NULL;
}

static int refuse(const struct parser *parser, const char *what, const char *hint)
{
    snprintf(parser->error, parser->error_size, "%s%s%s", what, *hint ? "; " : "", hint);
    return -EINVAL;
}

static int refuse_unknown(const struct parser *parser, const char *word, const char *name,
                          size_t length)
{
    char what[128], hint[96] = "";
    struct suggestion near = {0};

    for (size_t i = 0; i < parser->option_count; i++)
        suggestion_consider(&near, name, length, parser->options[i].name,
                            strlen(parser->options[i].name));
    snprintf(what, sizeof(what), "unknown option '%.*s'", (int)(strcspn(word, "=")), word);
    if (near.name)
        snprintf(hint, sizeof(hint), "did you mean '--%s'?", near.name);
    return refuse(parser, what, hint);
}

static int note(const struct parser *parser, struct arguments *arguments,
                const struct command_option *option, const char *value)
{
    char what[128];

    if (option->argument && !value) {
        snprintf(what, sizeof(what), "option '--%s' needs a value (%s)", option->name,
                 option->argument);
        return refuse(parser, what, "");
    }
    if (!option->argument && value) {
        snprintf(what, sizeof(what), "option '--%s' takes no value", option->name);
        return refuse(parser, what, "");
    }
    if (arguments->given_count == ARGUMENTS_MAX_OPTIONS)
        return refuse(parser, "too many options", "");
    arguments->given[arguments->given_count].name = option->name;
    arguments->given[arguments->given_count++].value = value;
    return 0;
}

/* Parses the option at argv[0]; returns how many words it took, or -EINVAL. */
static int parse_option(const struct parser *parser, int argc, char **argv,
                        struct arguments *arguments)
{
    const char *word = argv[0];
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    const struct command_option *option = is_long       ? find_long(parser, name, length)
                                          : length == 1 ? find_short(parser, *name)
                                                        : NULL;
    int taken = 1;

    if (!option)
        return refuse_unknown(parser, word, name, length);
    if (option->argument && !value && argc > 1 && strcmp(argv[1], "--") != 0) {
        value = argv[1];
        taken = 2;
    }
    int r = note(parser, arguments, option, value);
    return r < 0 ? r : taken;
}

int arguments_parse(int argc, char **argv, const struct command_option *options, size_t count,
                    bool stops_at_word, struct arguments *ret, char *error, size_t error_size)
{
    const struct parser parser = {options, count, error, error_size};
    int at = 0, ends_at = -1;

    *ret = (struct arguments){.words = argv};
    while (at < argc) {
        bool is_option = argv[at][0] == '-' && argv[at][1] != '\0';
        bool ends_options = strcmp(argv[at], "--") == 0;

        if (ends_options || (!is_option && stops_at_word)) {
            ends_at = ends_options ? ret->count : -1;
            for (at += ends_options; at < argc; at++)
                ret->words[ret->count++] = argv[at];
            break;
        }
        if (!is_option) {
            ret->words[ret->count++] = argv[at++];
            continue;
        }
        int taken = parse_option(&parser, argc - at, argv + at, ret);
        if (taken < 0)
            return taken;
        at += taken;
    }
    ret->before_dashes = ends_at < 0 ? ret->count : ends_at;
    ret->words[ret->count] = NULL; /* in place of an argument, or of argv's own NULL */
    return 0;
}

bool arguments_has(const struct arguments *arguments, const char *name)
{
    for (size_t i = 0; i < arguments->given_count; i++)
        if (strcmp(arguments->given[i].name, name) == 0)
            return true;
    return false;
}

const char *arguments_value(const struct arguments *arguments, const char *name)
{
    for (size_t i = arguments->given_count; i > 0; i--)
        if (strcmp(arguments->given[i - 1].name, name) == 0)
            return arguments->given[i - 1].value;
    return NULL;
}
