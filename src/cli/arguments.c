#include "cli/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/utf8.h"

/* getopt returns an option as its index in the table plus this, which is above all characters. */
#define INDEX_BASE 256

struct parser {
    const struct command_option *options;
    size_t option_count;
    struct option long_options[2 * ARGUMENTS_MAX_OPTIONS + 1];
    char short_options[2 * ARGUMENTS_MAX_OPTIONS + 3];
    char *error;
    size_t error_size;
};

/* A leading '-' returns words in order, '+' stops at the first one; ':' reports a missing value as
 * such. */
static void build_getopt_tables(struct parser *parser, bool stops_at_word)
{
    size_t names = 0;
    char *letter = parser->short_options;

    *letter++ = stops_at_word ? '+' : '-';
    *letter++ = ':';
    for (size_t i = 0; i < parser->option_count; i++) {
        const struct command_option *option = &parser->options[i];
        struct option entry = {option->name, option->argument != NULL, NULL, INDEX_BASE + (int)i};
        parser->long_options[names++] = entry;
        if (option->old_name) {
            entry.name = option->old_name;
            parser->long_options[names++] = entry;
        }
        if (option->short_name)
            *letter++ = option->short_name;
        if (option->short_name && option->argument)
            *letter++ = ':';
    }
}

/* Finds the option by the code that getopt returned or left in `optopt`; NULL: not in the table. */
static const struct command_option *find_option(const struct parser *parser, int code)
{
    if (code >= INDEX_BASE)
        return &parser->options[code - INDEX_BASE];
    for (size_t i = 0; i < parser->option_count; i++)
        if (code && parser->options[i].short_name == code)
            return &parser->options[i];
    return NULL;
}

/* Reports a letter of `word`, which may be one of several (`-qx`) and longer than a byte. */
static int report_unknown_letter(const struct parser *parser, const char *word, int letter)
{
    const char *at = strchr(word + 1, letter);
    size_t length = strlen(at);
    uint32_t character;
    size_t bytes = MAX(utf8_decode(at, length, &character), (size_t)1);

    if (at == word + 1 && length == bytes)
        snprintf(parser->error, parser->error_size, "unknown option '%s'", word);
    else
        snprintf(parser->error, parser->error_size, "unknown option '-%.*s' in '%s'", (int)bytes,
                 at, SHOWN(word));
    return -EINVAL;
}

/* `word` is the argument that contains the option, `letter` is 0 for a long one. */
static int report_unknown(const struct parser *parser, const char *word, int letter)
{
    const char *name = word + (letter ? 1 : 2);
    size_t length = strcspn(name, "=");
    struct suggestion near = {0};

    for (size_t i = 0; i < parser->option_count && length > 1; i++)
        if (!parser->options[i].instead)
            suggestion_consider(&near, name, length, parser->options[i].name,
                                strlen(parser->options[i].name));
    if (near.name)
        snprintf(parser->error, parser->error_size, "unknown option '%.*s'; did you mean '--%s'?",
                 (int)MIN(strcspn(word, "="), 120UL), word, near.name);
    else if (letter)
        return report_unknown_letter(parser, word, letter);
    else
        snprintf(parser->error, parser->error_size, "unknown option '%.*s'",
                 (int)MIN(strcspn(word, "="), 120UL), word);
    return -EINVAL;
}

static int report_missing(const struct parser *parser, const struct command_option *option)
{
    snprintf(parser->error, parser->error_size, "option '--%s' needs a value (%s)", option->name,
             option->argument);
    return -EINVAL;
}

/* getopt accepts unambiguous abbreviations. sonde refuses them: a new option would make some of
 * them ambiguous, and break the scripts that use them. */
static bool is_abbreviated(const struct command_option *option, const char *word)
{
    const char *name = word + 2;
    size_t length = strcspn(name, "=");

    if (strncmp(word, "--", 2) != 0)
        return false;
    return (strlen(option->name) != length || strncmp(option->name, name, length) != 0) &&
           (!option->old_name || strlen(option->old_name) != length ||
            strncmp(option->old_name, name, length) != 0);
}

/* For an abbreviation, and for a name that only has a replacement. */
static int report_other_name(const struct parser *parser, const struct command_option *option,
                             const char *word)
{
    snprintf(parser->error, parser->error_size, "unknown option '%.*s'; did you mean '%s%s'?",
             (int)strcspn(word, "="), word, option->instead ? "" : "--",
             option->instead ? option->instead : option->name);
    return -EINVAL;
}

/* Handles what getopt_long() returned for the option in `word`. `last` is the argument that
 * getopt read last. */
static int add_option(const struct parser *parser, int code, const char *word, const char *last,
                      struct arguments *arguments)
{
    const struct command_option *option =
        find_option(parser, code == '?' || code == ':' ? optopt : code);

    if (!option)
        return report_unknown(parser, word, optopt);
    if (option->instead || is_abbreviated(option, word))
        return report_other_name(parser, option, word);
    /* `--job -- CMD`: the value was forgotten. */
    if (code == ':' || (option->argument && optarg == last && strcmp(last, "--") == 0))
        return report_missing(parser, option);
    if (code == '?') {
        snprintf(parser->error, parser->error_size, "option '--%s' takes no value", option->name);
        return -EINVAL;
    }
    if (arguments->given_count == ARGUMENTS_MAX_OPTIONS) {
        snprintf(parser->error, parser->error_size, "too many options; at most %d are allowed",
                 ARGUMENTS_MAX_OPTIONS);
        return -EINVAL;
    }
    arguments->given[arguments->given_count].name = option->name;
    arguments->given[arguments->given_count++].value = option->argument ? optarg : NULL;
    return 0;
}

int arguments_parse(int argc, char **argv, const struct command_option *options, size_t count,
                    bool stops_at_word, struct arguments *ret, char *error, size_t error_size)
{
    struct parser parser = {
        .options = options, .option_count = count, .error = error, .error_size = error_size};
    int code;

    build_getopt_tables(&parser, stops_at_word);
    *ret = (struct arguments){.words = argv + 1};
    opterr = 0;
    optind = 0; /* makes getopt start afresh */
    for (const char *word = argc > 1 ? argv[1] : NULL;
         (code = getopt_long(argc, argv, parser.short_options, parser.long_options, NULL)) != -1;
         word = optind < argc ? argv[optind] : NULL) {
        int r = 0;
        if (code == 1)
            ret->words[ret->count++] = optarg;
        else
            r = add_option(&parser, code, word, argv[optind - 1], ret);
        if (r < 0)
            return r;
    }
    ret->before_dashes = ret->count;
    bool has_dashes = optind > 1 && strcmp(argv[optind - 1], "--") == 0;
    for (int i = optind; i < argc; i++)
        ret->words[ret->count++] = argv[i];
    if (!has_dashes)
        ret->before_dashes = ret->count;
    ret->words[ret->count] = NULL; /* in place of an argument, or of argv's own NULL */
    return 0;
}

const char *word_show(char buffer[static WORD_SHOWN_BYTES + sizeof("...")], const char *word)
{
    size_t length = strlen(word), shown = MIN(length, (size_t)WORD_SHOWN_BYTES);

    while (shown && shown < length && ((unsigned char)word[shown] & 0xC0) == 0x80)
        shown--;
    memcpy(buffer, word, shown);
    strcpy(buffer + shown, shown < length ? "..." : "");
    return buffer;
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

const char *arguments_next_value(const struct arguments *arguments, const char *name,
                                 size_t *position)
{
    while (*position < arguments->given_count) {
        size_t i = (*position)++;
        if (strcmp(arguments->given[i].name, name) == 0)
            return arguments->given[i].value;
    }
    return NULL;
}
