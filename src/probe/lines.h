/* Parses the lines of a kernel table and the numbers in them. Functions that return int return 0,
 * or -EBADMSG for unexpected text. No function reads beyond the given bytes.
 *
 * The kernel ends every line with a newline. A last line without one was cut by the reader's
 * buffer, possibly within a number, and is ignored. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rest of a line, without its newline. */
struct line {
    const char *at;
    const char *end;
};

/* Finds the next complete line and moves `*at` past it. Returns false at the end. */
bool lines_next(const char **at, const char *end, struct line *ret);

/* Finds the first line, for files that have only one. */
int lines_first(const char *bytes, size_t length, struct line *ret);

/* Moves past `key` (not empty) and the blanks after it. Returns false, without moving, if the line
 * does not continue with `key`. */
bool line_skip_key(struct line *line, const char *key);

/* Finds the next word, up to a blank or the end, and moves past it and the blanks after it. Returns
 * false if there is none. */
bool line_scan_word(struct line *line, struct line *ret_word);

/* Copies the word as a string. Returns 0, or -EBADMSG if it is empty, too long, or contains a NUL.
 */
int line_copy(const struct line *word, char *into, size_t capacity);

/* Parses an unsigned number that a blank or the end follows, and moves past it and the blanks. On
 * failure the line does not move. */
int line_scan_uint(struct line *line, uint64_t *ret);
/* The same, up to INT64_MAX. */
int line_scan_int(struct line *line, int64_t *ret);
/* Parses `1234 kB`, in bytes, in the same way. */
int line_scan_kb(struct line *line, int64_t *ret_bytes);
/* Parses `0.25`, not negative, in the same way. */
int line_scan_real(struct line *line, double *ret);
