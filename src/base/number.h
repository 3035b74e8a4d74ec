/* Strict parsing of numbers: the whole text must be a decimal number that fits; the locale has no
 * effect. `10s` is not 10, and `010` is an error. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Each returns 0, -EINVAL (not a number) or -ERANGE (does not fit). */
int number_parse_int(const char *text, int64_t *ret);
/* Accepts fractions and exponents; rejects NaN and infinity. */
int number_parse_real(const char *text, double *ret);
/* Accepts `100ms`, `30s`, `5m`, `2h30m`, `1.5s` (units d, h, m, s, ms, us, ns, from large to
 * small); a bare number is in seconds. */
int number_parse_duration(const char *text, uint64_t *ret_ns);

/* Parses the decimal digits at *cursor and advances it past them; text may follow. Returns 0,
 * -EINVAL (no digit there) or -ERANGE; on failure *cursor does not move. */
int number_scan_uint(const char **cursor, const char *end, uint64_t *ret);
int number_scan_int(const char **cursor, const char *end, int64_t *ret);
