#include "cli/man-page.h"

#include <ctype.h>
#include <string.h>

#include "cli/commands.h"

/* ---- markup ---- */

static bool is_capital(char character)
{
    return character >= 'A' && character <= 'Z';
}

static size_t count_capitals(const char *text)
{
    size_t length = 0;

    while (is_capital(text[length]))
        length++;
    return length;
}

/* Whether `text` contains the capitals as a whole word. */
static bool has_word(const char *text, const char *word, size_t length)
{
    for (; *text; text++) {
        size_t found = count_capitals(text);
        if (found == length && strncmp(text, word, length) == 0)
            return true;
        text += found ? found - 1 : 0;
    }
    return false;
}

/* Names of values are those of options, and the capitals in the usage; `command` NULL: only those
 * of common options. Other capitals are abbreviations, such as CPU. */
static bool is_value_name(const struct command *command, const char *word, size_t length)
{
    for (size_t i = 0; i < common_option_count; i++)
        if (common_options[i].argument && has_word(common_options[i].argument, word, length))
            return true;
    for (size_t i = 0; command && i < command->option_count; i++)
        if (command->options[i].argument && has_word(command->options[i].argument, word, length))
            return true;
    return command && has_word(command->usage, word, length);
}

static void append_escaped(struct text *out, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (strchr("*_\\", bytes[i]))
            text_append_char(out, '\\');
        text_append_char(out, bytes[i]);
    }
}

static void append_marked(struct text *out, char mark, const char *bytes, size_t length)
{
    text_append_char(out, mark);
    append_escaped(out, bytes, length);
    text_append_char(out, mark);
}

/* Returns the length of an option with its dashes, also of a mere `--`; 0: it is none. */
static size_t option_length(const char *text)
{
    size_t length = 1;

    if (text[0] != '-' || (text[1] != '-' && !isalpha((unsigned char)text[1])))
        return 0;
    while (text[length] == '-' || isalnum((unsigned char)text[length]))
        length++;
    return length;
}

/* Returns the length of the name in `name(1)`; 0: the text does not begin with one. */
static size_t page_length(const char *text)
{
    size_t length = 0;

    while (text[length] == '-' || text[length] == '.' || isalnum((unsigned char)text[length]))
        length++;
    bool is_page =
        text[length] == '(' && isdigit((unsigned char)text[length + 1]) && text[length + 2] == ')';
    return is_page ? length : 0;
}

/* Returns the length of `$NAME`, an environment variable; 0: the text does not begin with one. */
static size_t variable_length(const char *text)
{
    size_t length = 1;

    if (text[0] != '$' || !is_capital(text[1]))
        return 0;
    while (text[length] == '_' || is_capital(text[length]))
        length++;
    return length;
}

/* Appends what stands at the beginning of a word, if it has markup. Returns the bytes of `text`
 * that this used; 0: none. */
static size_t append_special_word(const struct command *command, const char *text, struct text *out)
{
    const char *quoted = text + 1, *end = *text == '`' ? strchr(quoted, '`') : NULL;
    size_t length;

    if (end) {
        append_marked(out, '*', quoted, (size_t)(end - quoted));
        return (size_t)(end + 1 - text);
    }
    if ((length = option_length(text)) || (length = page_length(text)) ||
        (length = variable_length(text))) {
        append_marked(out, '*', text, length);
        return length;
    }
    length = count_capitals(text);
    if (!length || text[length] == '_' || isalnum((unsigned char)text[length]) ||
        !is_value_name(command, text, length))
        return 0;
    append_marked(out, '_', text, length);
    return length;
}

static void append_text(const struct command *command, const char *text, struct text *out)
{
    bool is_in_word = false;

    while (*text) {
        size_t used = is_in_word ? 0 : append_special_word(command, text, out);
        if (!used) {
            /* Paragraphs of an entry are indented. */
            if (*text == '\n' && text[1] != '\n')
                text_append_string(out, "\n\t");
            else
                append_escaped(out, text, 1);
            used = 1;
        }
        text += used;
        is_in_word = isalnum((unsigned char)text[-1]) || text[-1] == '_' || text[-1] == '-';
    }
}

/* ---- parts ---- */

void man_page_name(const struct command *command, struct text *out)
{
    size_t length = strlen(command->summary);

    text_printf(out, "sonde-%s - %c%.*s\n", command->name,
                tolower((unsigned char)command->summary[0]), (int)length - 2,
                command->summary + 1); /* without the full stop */
}

void man_page_synopsis(const struct command *command, struct text *out)
{
    const char *line = command->usage;

    for (;;) {
        size_t verb = strcspn(line, "[-ABCDEFGHIJKLMNOPQRSTUVWXYZ\n");
        _cleanup_text_ struct text rest = {0};

        while (verb && line[verb - 1] == ' ')
            verb--;
        text_append(&rest, line + verb, strcspn(line + verb, "\n"));
        text_printf(out, "*sonde %.*s*", (int)verb, line);
        append_text(command, text_string(&rest), out);
        text_append_char(out, '\n');
        line = strchr(line, '\n');
        if (!line)
            return;
        line++;
        text_append_char(out, '\n');
    }
}

static void append_option_names(const struct command_option *option, struct text *out)
{
    if (option->short_name)
        text_printf(out, "*-%c*, ", option->short_name);
    text_printf(out, "*--%s*", option->name);
    if (option->argument)
        text_printf(out, " _%s_", option->argument);
}

static void append_options(const struct command *command, const struct command_option *options,
                           size_t count, struct text *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct command_option *option = &options[i];
        if (option->instead)
            continue;
        append_option_names(option, out);
        text_append_string(out, "\n\t");
        append_text(command, option->help, out);
        if (option->is_repeatable)
            text_append_string(out, " " OPTION_IS_REPEATABLE);
        if (option->more) {
            text_append_char(out, ' ');
            append_text(command, option->more, out);
        }
        text_append_string(out, "\n\n");
    }
}

void man_page_options(const struct command *command, struct text *out)
{
    append_options(command, command->options, command->option_count, out);
    for (size_t i = 0; i < common_option_count; i++) {
        text_append_string(out, i ? ", " : "");
        append_option_names(&common_options[i], out);
    }
    text_append_string(out, "\n\tAs for every verb, see *sonde*(1).\n\n");
}

void man_page_verbs(struct text *out)
{
    for (size_t i = 0; i < command_count; i++) {
        text_printf(out, "*%s*\n\t", commands[i]->name);
        append_text(commands[i], commands[i]->summary, out);
        if (!commands[i]->has_no_page)
            text_printf(out, " See *sonde-%s*(1).", commands[i]->name);
        text_append_string(out, "\n\n");
    }
}

void man_page_common_options(struct text *out)
{
    append_options(NULL, common_options, common_option_count, out);
}
