#include "trace/strace-table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/macros.h"
#include "base/number.h"

enum column {
    COLUMN_SHARE,
    COLUMN_SECONDS,
    COLUMN_SHORTEST,
    COLUMN_LONGEST,
    COLUMN_AVERAGE,
    COLUMN_CALLS,
    COLUMN_ERRORS,
    COLUMN_NAME,
    COLUMN_COUNT,
};

static const char *const column_titles[COLUMN_COUNT] = {
    [COLUMN_SHARE] = "%", /* "% time": its second word is skipped */
    [COLUMN_SECONDS] = "seconds", [COLUMN_SHORTEST] = "shortest",
    [COLUMN_LONGEST] = "longest", [COLUMN_AVERAGE] = "usecs/call",
    [COLUMN_CALLS] = "calls",     [COLUMN_ERRORS] = "errors",
    [COLUMN_NAME] = "syscall",
};

/* No line of a table has more words. */
#define WORDS_MAX 10
/* The longest name of a call, and any number, fits. */
#define WORD_MAX_BYTES 63

struct word {
    const char *bytes;
    size_t length;
};

struct line {
    struct word words[WORDS_MAX];
    size_t count;
};

struct table {
    enum column columns[COLUMN_COUNT];
    size_t count; /* 0: no header yet */
    bool has[COLUMN_COUNT];
    bool is_open; /* between its two rules */
};

/* ---- words ---- */

static bool is_blank(char character)
{
    return character == ' ' || character == '\t' || character == '\r';
}

static void split_words(const char *bytes, size_t length, struct line *ret)
{
    const char *at = bytes, *end = bytes + length;

    ret->count = 0;
    while (ret->count < WORDS_MAX) {
        while (at < end && is_blank(*at))
            at++;
        if (at == end)
            return;
        const char *start = at;
        while (at < end && !is_blank(*at))
            at++;
        ret->words[ret->count++] = (struct word){.bytes = start, .length = (size_t)(at - start)};
    }
}

static bool is_word(const struct word *word, const char *text)
{
    return strlen(text) == word->length && memcmp(word->bytes, text, word->length) == 0;
}

static bool copy_word(const struct word *word, char into[static WORD_MAX_BYTES + 1])
{
    if (word->length > WORD_MAX_BYTES || memchr(word->bytes, '\0', word->length))
        return false;
    memcpy(into, word->bytes, word->length);
    into[word->length] = '\0';
    return true;
}

/* Some locales use a decimal comma; none uses both. */
static int parse_real(const struct word *word, double *ret)
{
    char text[WORD_MAX_BYTES + 1];

    if (!copy_word(word, text))
        return -EINVAL;
    char *comma = strchr(text, ',');
    if (comma)
        *comma = '.';
    int r = number_parse_real(text, ret);
    return r == 0 && *ret < 0 ? -EINVAL : r;
}

static int parse_count(const struct word *word, uint64_t *ret)
{
    char text[WORD_MAX_BYTES + 1];
    int64_t value;

    if (!copy_word(word, text) || number_parse_int(text, &value) < 0 || value < 0)
        return -EINVAL;
    *ret = (uint64_t)value;
    return 0;
}

/* ---- header, rules, rows ---- */

static bool is_rule(const struct line *line)
{
    for (size_t i = 0; i < line->count; i++)
        for (size_t at = 0; at < line->words[i].length; at++)
            if (line->words[i].bytes[at] != '-')
                return false;
    return line->count > 0;
}

static int find_column(const struct word *word)
{
    for (int i = 0; i < COLUMN_COUNT; i++)
        if (is_word(word, column_titles[i]))
            return i;
    return -1;
}

/* Whether the line is a header: it has only titles, among them those of the name and of the calls.
 */
static bool parse_header(const struct line *line, struct table *ret)
{
    struct table table = {.count = 0};

    for (size_t i = 0; i < line->count; i++) {
        int column = find_column(&line->words[i]);
        if (column < 0 || table.has[column])
            return false;
        if (column == COLUMN_SHARE && !(i + 1 < line->count && is_word(&line->words[++i], "time")))
            return false;
        table.has[column] = true;
        table.columns[table.count++] = (enum column)column;
    }
    if (!table.has[COLUMN_NAME] || !table.has[COLUMN_CALLS])
        return false;
    *ret = table;
    return true;
}

/* Assigns words to columns. The column of errors is blank for calls without errors. */
static bool place_words(const struct table *table, const struct line *line,
                        const struct word *ret[COLUMN_COUNT])
{
    bool lacks_errors = line->count + 1 == table->count && table->has[COLUMN_ERRORS];
    size_t at = 0;

    if (line->count != table->count && !lacks_errors)
        return false;
    for (size_t i = 0; i < table->count; i++)
        ret[table->columns[i]] =
            lacks_errors && table->columns[i] == COLUMN_ERRORS ? NULL : &line->words[at++];
    return true;
}

/* Parses the time of all calls. Without that column it is computed from the average time of a call;
 * without that column, the share stands for the time. */
static int parse_time(const struct word *const words[COLUMN_COUNT], uint64_t calls,
                      uint64_t *ret_ns)
{
    double ns = 0;
    int r = 0;

    if (words[COLUMN_SECONDS]) {
        r = parse_real(words[COLUMN_SECONDS], &ns);
        ns *= 1e9;
    } else if (words[COLUMN_AVERAGE]) {
        r = parse_real(words[COLUMN_AVERAGE], &ns);
        ns *= 1e3 * (double)calls;
    } else if (words[COLUMN_SHARE]) {
        r = parse_real(words[COLUMN_SHARE], &ns);
        ns *= 1e7;
    }
    if (r < 0 || ns > (double)INT64_MAX)
        return -EINVAL;
    *ret_ns = (uint64_t)(ns + 0.5);
    return 0;
}

static int parse_row(const struct table *table, const struct line *line, struct syscall_sum *ret)
{
    const struct word *words[COLUMN_COUNT] = {NULL};
    char name[WORD_MAX_BYTES + 1];
    struct syscall_sum sum = {0};

    if (!place_words(table, line, words) || !copy_word(words[COLUMN_NAME], name) ||
        parse_count(words[COLUMN_CALLS], &sum.count) < 0 ||
        parse_time(words, sum.count, &sum.ns) < 0 ||
        (words[COLUMN_ERRORS] && parse_count(words[COLUMN_ERRORS], &sum.errors) < 0))
        return -EINVAL;
    sum.call = syscall_number(name);
    *ret = sum;
    return 0;
}

/* ---- the whole table ---- */

static int add_row(const struct table *table, const struct line *line,
                   struct syscall_profile *profile)
{
    struct syscall_sum sum;

    return parse_row(table, line, &sum) < 0 ? 0 : syscall_profile_add(profile, &sum);
}

static int parse_line(struct table *table, const struct line *line, struct syscall_profile *profile)
{
    if (parse_header(line, table))
        return 0;
    if (table->count && is_rule(line)) {
        if (table->is_open) /* the total follows */
            table->count = 0;
        table->is_open = !table->is_open;
        return 0;
    }
    return table->count && table->is_open ? add_row(table, line, profile) : 0;
}

int strace_table_parse(const char *bytes, size_t length, struct syscall_profile *profile)
{
    const char *at = bytes, *end = bytes + length;
    struct table table = {.count = 0};
    bool has_table = false;
    int r = 0;

    while (at < end && r == 0) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline ? newline : end;
        struct line line;

        split_words(at, (size_t)(line_end - at), &line);
        r = parse_line(&table, &line, profile);
        has_table |= table.is_open;
        at = newline ? newline + 1 : end;
    }
    if (r < 0)
        return r;
    return has_table ? 0 : -ENODATA;
}
