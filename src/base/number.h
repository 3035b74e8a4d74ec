/* Strict numbers out of text: the whole text or nothing, decimal only, no locale, no overflow.
 * `10s` is not 10 and `010` is not 8. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* 0, -EINVAL (not a number) or -ERANGE (does not fit). */
int number_parse_int(const char *text, int64_t *ret);
/* Also fractions and exponents; never NaN or infinity. */
int number_parse_real(const char *text, double *ret);
/* `100ms`, `30s`, `5m`, `2h30m`, `1.5s`; a bare number is in seconds. */
int number_parse_duration(const char *text, uint64_t *ret_ns);

/* Reads the decimal digits at *cursor and steps over them, for the kernel's tables: 0, -EINVAL (no
 * digit there) or -ERANGE. */
int number_scan_uint(const char **cursor, const char *end, uint64_t *ret);
int number_scan_int(const char **cursor, const char *end, int64_t *ret);
