#include "base/number.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"

/* Just below INT64_MAX, so that a duration also fits a signed integer: 292 years. */
#define DURATION_LIMIT_NS 9.2e18

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int number_scan_uint(const char **cursor, const char *end, uint64_t *ret)
{
    const char *at = *cursor;
    uint64_t value = 0;

    if (at >= end || !is_digit(*at))
        return -EINVAL;
    for (; at < end && is_digit(*at); at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return -ERANGE;

    *cursor = at;
    *ret = value;
    return 0;
}

int number_scan_int(const char **cursor, const char *end, int64_t *ret)
{
    const char *at = *cursor;
    bool negative = at < end && *at == '-';
    uint64_t magnitude;

    at += negative;
    int r = number_scan_uint(&at, end, &magnitude);
    if (r < 0)
        return r;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return -ERANGE;

    *cursor = at;
    *ret = negative ? (int64_t)-magnitude : (int64_t)magnitude;
    return 0;
}

/* Whether the digits at `at` have a leading zero, as in `010`. */
static bool has_leading_zero(const char *at)
{
    return at[0] == '0' && is_digit(at[1]);
}

int number_parse_int(const char *text, int64_t *ret)
{
    const char *at = text, *end = text + strlen(text);
    int64_t value;

    if (has_leading_zero(text + (*text == '-')))
        return -EINVAL;
    int r = number_scan_int(&at, end, &value);
    if (r < 0)
        return r;
    if (at != end)
        return -EINVAL;

    *ret = value;
    return 0;
}

/* Returns the end of digits[.digits][e[+-]digits] at `at`, or NULL if no such number is there. */
static const char *skip_real(const char *at, bool allow_exponent)
{
    if (!is_digit(*at) || has_leading_zero(at))
        return NULL;
    while (is_digit(*at))
        at++;
    if (*at == '.') {
        if (!is_digit(*++at))
            return NULL;
        while (is_digit(*at))
            at++;
    }
    if (allow_exponent && (*at == 'e' || *at == 'E')) {
        at++;
        at += *at == '+' || *at == '-';
        if (!is_digit(*at))
            return NULL;
        while (is_digit(*at))
            at++;
    }
    return at;
}

int number_parse_real(const char *text, double *ret)
{
    const char *end = skip_real(text + (*text == '-'), true);

    if (!end || *end)
        return -EINVAL;
    double value = strtod(text, NULL);
    if (!isfinite(value))
        return -ERANGE;

    *ret = value;
    return 0;
}

/* Returns the length of the unit at `at` and its nanoseconds, or 0 if there is no unit. */
static size_t duration_unit(const char *at, double *ret_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {
        {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9},
    };

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (strncmp(at, units[i].name, strlen(units[i].name)) == 0) {
            *ret_ns = units[i].ns;
            return strlen(units[i].name);
        }
    return 0;
}

int number_parse_duration(const char *text, uint64_t *ret_ns)
{
    const char *at = text;
    double total_ns = 0, previous_unit = INFINITY;

    do {
        const char *digits_end = skip_real(at, false);
        double unit_ns = 1e9;
        if (!digits_end)
            return -EINVAL;

        size_t unit_length = duration_unit(digits_end, &unit_ns);
        bool bare = !unit_length && at == text && !*digits_end;
        /* Units must get smaller: 2h30m, not 30m2h or 2m2m. */
        if ((!unit_length && !bare) || unit_ns >= previous_unit)
            return -EINVAL;

        total_ns += strtod(at, NULL) * unit_ns;
        previous_unit = unit_ns;
        at = digits_end + unit_length;
    } while (*at);

    if (total_ns >= DURATION_LIMIT_NS)
        return -ERANGE;
    *ret_ns = (uint64_t)llround(total_ns);
    return 0;
}
