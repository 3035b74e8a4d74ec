/* Regular expressions of a configuration: POSIX extended ones, without features that make glibc
 * compile or match them in exponential time. In model, because config checks patterns with it, and
 * jobs compiles the same patterns to match them. */
#pragma once

#include <regex.h>
#include <stddef.h>

#define RULE_PATTERN_MAX_BYTES 256

/* Compiles a pattern for regexec() and regfree(). Returns 0, -EINVAL with the reason as text, or
 * -ENOMEM. */
int rule_pattern_compile(const char *pattern, regex_t *ret, char *reason, size_t reason_size);
