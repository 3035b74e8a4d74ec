/* PID/cmdline: the arguments, each followed by a NUL, as one line of text. */
#pragma once

#include <stddef.h>

/* Joins the arguments with blanks into valid UTF-8 of at most `capacity - 1` bytes, cut at a
 * character boundary. Removes trailing NULs and blanks, which programs that rewrite their title
 * leave. Keeps control characters, which are escaped on output. Returns the length; 0 for an empty
 * file. A character cut by the end of `bytes` becomes U+FFFD, so pass 3 bytes more than `capacity`
 * if the file has them. */
size_t proc_cmdline_parse(const char *bytes, size_t length, char *into, size_t capacity);

/* Writes "[name]", as ps does, for a process without a command line. Returns the length. */
size_t proc_cmdline_from_name(const char *name, char *into, size_t capacity);
