/* The lines of a kernel table, and the numbers in them. What does not read as asked for is
 * -EBADMSG; no function here looks past the bytes it was given.
 *
 * The kernel ends every line with a newline. A last line without one was cut by the reader's
 * buffer, perhaps within a number: it is passed over. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of a line, its newline not included. */
struct line {
    const char *at;
    const char *end;
};

/* Steps `*at` past the next whole line; false at the end. */
bool lines_next(const char **at, const char *end, struct line *ret);

/* The first line, for files that have only one. */
int lines_first(const char *bytes, size_t length, struct line *ret);

/* Steps over `key`, which is not empty, and the blanks after it, if the line goes on with it. */
bool line_take_key(struct line *line, const char *key);

/* The next word, up to a blank or the end, and the blanks after it; false if there is none. */
bool line_take_word(struct line *line, struct line *ret_word);

/* Copies the word as a text. 0, or -EBADMSG: it is empty, too long, or holds a NUL. */
int line_copy(const struct line *word, char *into, size_t capacity);

/* A number with a blank or the end after it, and the blanks after that. No sign. On failure the
 * line stays where it was. */
int line_take_uint(struct line *line, uint64_t *ret);
/* The same up to INT64_MAX. */
int line_take_int(struct line *line, int64_t *ret);
/* `1234 kB`, in bytes. */
int line_take_kb(struct line *line, int64_t *ret_bytes);
/* `0.25`, not negative. */
int line_take_real(struct line *line, double *ret);
