/* PID/cmdline: the arguments, NUL after each, as one line of text. */
#pragma once

#include <stddef.h>

/* Joins the arguments with blanks into valid UTF-8 of at most `capacity - 1` bytes, cut on a
 * character boundary; trailing NULs and blanks (left by programs that rewrite their title) are
 * dropped. Returns the length; 0 for an empty file. Control characters stay: they are escaped
 * where the text is shown. A character that the end of `bytes` cuts becomes U+FFFD: hand in 3 bytes
 * more than `capacity`, where the file has them. */
size_t proc_cmdline_parse(const char *bytes, size_t length, char *into, size_t capacity);

/* What stands for a command line where there is none: "[name]", as ps shows it. */
size_t proc_cmdline_from_name(const char *name, char *into, size_t capacity);
