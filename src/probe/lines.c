#include "probe/lines.h"

#include <errno.h>
#include <string.h>

#include "base/number.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void skip_blanks(struct line *line)
{
    while (line->at < line->end && is_blank(*line->at))
        line->at++;
}

bool lines_next(const char **at, const char *end, struct line *ret)
{
    if (*at >= end)
        return false;

    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    if (!newline)
        return false;
    *ret = (struct line){.at = *at, .end = newline};
    *at = newline + 1;
    return true;
}

int lines_first(const char *bytes, size_t length, struct line *ret)
{
    const char *at = bytes;

    return lines_next(&at, bytes + length, ret) ? 0 : -EBADMSG;
}

bool line_skip_key(struct line *line, const char *key)
{
    if (line->at == line->end || *line->at != *key)
        return false; /* fast path: nearly all lines */
    size_t length = strlen(key);
    if ((size_t)(line->end - line->at) < length || memcmp(line->at, key, length) != 0)
        return false;
    line->at += length;
    skip_blanks(line);
    return true;
}

bool line_scan_word(struct line *line, struct line *ret_word)
{
    const char *at = line->at;

    while (at < line->end && !is_blank(*at))
        at++;
    if (at == line->at)
        return false;
    *ret_word = (struct line){.at = line->at, .end = at};
    line->at = at;
    skip_blanks(line);
    return true;
}

int line_copy(const struct line *word, char *into, size_t capacity)
{
    size_t length = (size_t)(word->end - word->at);

    if (!length || length >= capacity || memchr(word->at, '\0', length))
        return -EBADMSG;
    memcpy(into, word->at, length);
    into[length] = '\0';
    return 0;
}

int line_scan_uint(struct line *line, uint64_t *ret)
{
    const char *at = line->at;
    uint64_t value;

    if (number_scan_uint(&at, line->end, &value) < 0 || (at < line->end && !is_blank(*at)))
        return -EBADMSG;
    line->at = at;
    skip_blanks(line);
    *ret = value;
    return 0;
}

int line_scan_int(struct line *line, int64_t *ret)
{
    struct line rest = *line;
    uint64_t value;

    if (line_scan_uint(&rest, &value) < 0 || value > INT64_MAX)
        return -EBADMSG;
    *line = rest;
    *ret = (int64_t)value;
    return 0;
}

int line_scan_kb(struct line *line, int64_t *ret_bytes)
{
    struct line rest = *line;
    int64_t value;

    if (line_scan_int(&rest, &value) < 0 || !line_skip_key(&rest, "kB") ||
        __builtin_mul_overflow(value, 1024, &value))
        return -EBADMSG;
    *line = rest;
    *ret_bytes = value;
    return 0;
}

int line_scan_real(struct line *line, double *ret)
{
    struct line rest = *line, word;
    char text[32]; /* the kernel prints `%lu.%02lu`, 23 bytes at most */

    if (!line_scan_word(&rest, &word) || *word.at == '-' ||
        line_copy(&word, text, sizeof(text)) < 0)
        return -EBADMSG;
    if (number_parse_real(text, ret) < 0)
        return -EBADMSG;
    *line = rest;
    return 0;
}
