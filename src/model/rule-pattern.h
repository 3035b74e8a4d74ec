/* Regular expressions from a configuration: POSIX extended ones, less what can make glibc compile
 * or match them without end. */
#pragma once

#include <regex.h>
#include <stddef.h>

#define RULE_PATTERN_MAX_BYTES 256

/* Compiles a pattern, for regexec() and regfree(). 0, -EINVAL with the reason in words, or -ENOMEM.
 */
int rule_pattern_compile(const char *pattern, regex_t *ret, char *reason, size_t reason_size);
