#include "base/time-spec.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/number.h"

/* The longest form, a day and a time with nanoseconds and an offset, is under 40 bytes. */
#define TIME_SPEC_MAX_BYTES 64

#define YEAR_10000_SEC 253402300800.0 /* 10000-01-01T00:00:00Z */
#define SEC_PER_DAY    86400

struct day {
    int year, month, day; /* as written: January is 1 */
};

struct clock_time {
    int hour, minute;
    double second;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void skip_blanks(const char **at)
{
    while (is_blank(**at))
        (*at)++;
}

/* ---- the calendar ---- */

/* Returns the Unix seconds of the day and time, taken as UTC, without the fraction. */
static time_t utc_seconds(const struct day *day, const struct clock_time *time)
{
    struct tm tm = {.tm_year = day->year - 1900, .tm_mon = day->month - 1, .tm_mday = day->day};
    return timegm(&tm) + time->hour * 3600 + time->minute * 60 + (time_t)time->second;
}

static bool day_exists(const struct day *day)
{
    struct tm tm = {.tm_year = day->year - 1900, .tm_mon = day->month - 1, .tm_mday = day->day};

    timegm(&tm);
    return tm.tm_mon == day->month - 1 && tm.tm_mday == day->day;
}

/* Finds the offset of local time from UTC at a moment. */
static bool offset_at(time_t moment, long *ret_sec)
{
    struct tm tm;

    if (!localtime_r(&moment, &tm))
        return false;
    *ret_sec = tm.tm_gmtoff;
    return true;
}

/* Finds the moments at which local clocks show that day and time, earliest first. Returns their
 * number: 1, or 2 where the clocks were set back. mktime() is not used: which of the two it
 * returns, and which side it chooses for a skipped time, depends on earlier calls. */
static int local_moments(const struct day *day, const struct clock_time *time, double ret[static 2])
{
    time_t utc = utc_seconds(day, time);
    double fraction = fmod(time->second, 1);
    long before, after, there;
    int count = 0;

    /* Offsets are under a day, so these two lie on either side of any jump nearby. */
    if (!offset_at(utc - SEC_PER_DAY, &before) || !offset_at(utc + SEC_PER_DAY, &after))
        return -ERANGE;
    if (offset_at(utc - before, &there) && there == before)
        ret[count++] = (double)(utc - before) + fraction;
    if (after != before && offset_at(utc - after, &there) && there == after)
        ret[count++] = (double)(utc - after) + fraction;
    if (count == 0) /* skipped: use the offset from before the jump */
        ret[count++] = (double)(utc - before) + fraction;
    return count;
}

static int first_moment(const struct day *day, const struct clock_time *time, double *ret)
{
    double moments[2];

    int r = local_moments(day, time, moments);
    if (r < 0)
        return r;
    *ret = moments[0];
    return 0;
}

/* Finds the local day that is `days_back` days before the day of `now`. */
static int day_before(double now, int days_back, struct day *ret)
{
    time_t seconds = (time_t)floor(now);
    struct tm tm;

    if (!localtime_r(&seconds, &tm))
        return -ERANGE;
    /* Only the day matters here; in UTC every day has 24 hours. */
    struct tm day = {.tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday - days_back};
    timegm(&day);
    *ret = (struct day){day.tm_year + 1900, day.tm_mon + 1, day.tm_mday};
    return 0;
}

/* Finds the latest moment, not after `now`, at which local clocks showed this time. */
static int latest_moment(const struct clock_time *time, double now, double *ret)
{
    /* A zone may skip a whole day, as Samoa did in 2011. */
    for (int days_back = 0; days_back <= 2; days_back++) {
        struct day day;
        double moments[2];
        int r = day_before(now, days_back, &day);
        if (r < 0)
            return r;
        int count = local_moments(&day, time, moments);
        if (count < 0)
            return count;
        while (count--)
            if (moments[count] <= now) {
                *ret = moments[count];
                return 0;
            }
    }
    return -ERANGE;
}

/* ---- tokens: each advances *at past the token, or leaves it unchanged and returns false ---- */

static bool scan_char(const char **at, char wanted)
{
    if (**at != wanted)
        return false;
    (*at)++;
    return true;
}

static bool scan_digits(const char **at, size_t least, size_t most, int *ret)
{
    size_t length = strspn(*at, "0123456789");
    int value = 0;

    if (length < least || length > most)
        return false;
    for (size_t i = 0; i < length; i++)
        value = 10 * value + (*at)[i] - '0';
    *at += length;
    *ret = value;
    return true;
}

/* Scans a whole word, in any case, and the blanks after it. */
static bool scan_word(const char **at, const char *word)
{
    size_t length = strlen(word);

    if (strncasecmp(*at, word, length) != 0 || ((*at)[length] && !is_blank((*at)[length])))
        return false;
    *at += length;
    skip_blanks(at);
    return true;
}

/* YYYY-MM-DD */
static bool scan_day(const char **at, struct day *ret)
{
    const char *here = *at;
    struct day day;

    if (!scan_digits(&here, 4, 4, &day.year) || !scan_char(&here, '-') ||
        !scan_digits(&here, 2, 2, &day.month) || !scan_char(&here, '-') ||
        !scan_digits(&here, 2, 2, &day.day) || !day_exists(&day))
        return false;
    *at = here;
    *ret = day;
    return true;
}

/* :SS or :SS.fraction; absent means :00. Advances *at even on failure, for scan_time(). */
static bool scan_seconds(const char **at, double *ret)
{
    int whole, digit;
    double scale = 1;

    *ret = 0;
    if (!scan_char(at, ':'))
        return true;
    if (!scan_digits(at, 2, 2, &whole) || whole > 59)
        return false;
    *ret = whole;
    if (!scan_char(at, '.'))
        return true;
    size_t digits = strspn(*at, "0123456789");
    for (size_t i = 0; i < digits; i++) {
        digit = *(*at)++ - '0';
        *ret += digit * (scale /= 10);
    }
    /* A long row of nines would round up to the next second. */
    *ret = fmin(*ret, nextafter(whole + 1, 0));
    return digits > 0;
}

/* H:MM, HH:MM, HH:MM:SS, HH:MM:SS.fraction */
static bool scan_time(const char **at, struct clock_time *ret)
{
    const char *here = *at;
    struct clock_time time;

    if (!scan_digits(&here, 1, 2, &time.hour) || time.hour > 23 || !scan_char(&here, ':') ||
        !scan_digits(&here, 2, 2, &time.minute) || time.minute > 59 ||
        !scan_seconds(&here, &time.second))
        return false;
    *at = here;
    *ret = time;
    return true;
}

/* Z, +HH:MM, +HHMM or the same with a minus. */
static bool scan_offset(const char **at, int *ret_sec)
{
    const char *here = *at;
    int hours, minutes;

    if (scan_char(&here, 'Z') || scan_char(&here, 'z')) {
        *at = here;
        *ret_sec = 0;
        return true;
    }
    int sign = *here == '+' ? 1 : -1;
    if ((!scan_char(&here, '+') && !scan_char(&here, '-')) || !scan_digits(&here, 2, 4, &hours))
        return false;
    if (here - *at == 5) {
        minutes = hours % 100;
        hours /= 100;
    } else if (here - *at != 3 || !scan_char(&here, ':') || !scan_digits(&here, 2, 2, &minutes)) {
        return false;
    }
    if (hours > 23 || minutes > 59)
        return false;
    *at = here;
    *ret_sec = sign * (hours * 3600 + minutes * 60);
    return true;
}

/* ---- the forms: each returns -EINVAL for text of another form ---- */

static int parse_time_of_day(const char *text, double now, double *ret)
{
    struct clock_time time;

    if (!scan_time(&text, &time) || *text)
        return -EINVAL;
    return latest_moment(&time, now, ret);
}

static int parse_day_word(const char *text, double now, double *ret)
{
    struct clock_time time = {0};
    struct day day;
    bool is_yesterday = scan_word(&text, "yesterday");

    if (!is_yesterday && !scan_word(&text, "today"))
        return -EINVAL;
    if (*text && (!scan_time(&text, &time) || *text))
        return -EINVAL;
    int r = day_before(now, is_yesterday, &day);
    return r < 0 ? r : first_moment(&day, &time, ret);
}

static int parse_date(const char *text, double *ret)
{
    struct clock_time time = {0};
    struct day day;
    int offset;

    if (!scan_day(&text, &day))
        return -EINVAL;
    if (!*text)
        return first_moment(&day, &time, ret);

    if (is_blank(*text))
        skip_blanks(&text);
    else if (!scan_char(&text, 'T') && !scan_char(&text, 't'))
        return -EINVAL;
    if (!scan_time(&text, &time))
        return -EINVAL;
    if (!*text)
        return first_moment(&day, &time, ret);

    skip_blanks(&text);
    if (!scan_offset(&text, &offset) || *text)
        return -EINVAL;
    *ret = (double)(utc_seconds(&day, &time) - offset) + fmod(time.second, 1);
    return 0;
}

/* Parses `2h30m`. A bare number is an error here, because it means Unix seconds. */
static int parse_short_duration(const char *text, double *ret_sec)
{
    uint64_t ns;

    if (strspn(text, "0123456789.") == strlen(text))
        return -EINVAL;
    int r = number_parse_duration(text, &ns);
    if (r == 0)
        *ret_sec = (double)ns / (double)NS_PER_SEC;
    return r;
}

static bool scan_unit(const char **at, double *ret_sec)
{
    static const struct {
        const char *names[4];
        double sec;
    } units[] = {
        {{"second", "seconds", "sec", "secs"}, 1}, {{"minute", "minutes", "min", "mins"}, 60},
        {{"hour", "hours", "hr", "hrs"}, 3600},    {{"day", "days"}, SEC_PER_DAY},
        {{"week", "weeks"}, 7 * SEC_PER_DAY},
    };

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        for (size_t k = 0; k < ARRAY_SIZE(units[i].names) && units[i].names[k]; k++)
            if (scan_word(at, units[i].names[k])) {
                *ret_sec = units[i].sec;
                return true;
            }
    return false;
}

/* Parses `2 hours` or `1 hour 30 minutes`; units decrease from left to right. */
static int parse_long_duration(const char *text, double *ret_sec)
{
    double sum = 0, previous_unit = INFINITY;

    do {
        size_t length = strspn(text, "0123456789.");
        char digits[TIME_SPEC_MAX_BYTES + 1];
        double number, unit;
        memcpy(digits, text, length);
        digits[length] = '\0';
        text += length;
        skip_blanks(&text);
        if (number_parse_real(digits, &number) < 0 || !scan_unit(&text, &unit) ||
            unit >= previous_unit)
            return -EINVAL;
        sum += number * unit;
        previous_unit = unit;
    } while (*text);
    *ret_sec = sum;
    return 0;
}

/* `3m`, `3m ago`, `2 hours ago` */
static int parse_duration(char *text, double now, double *ret)
{
    size_t length = strlen(text);
    double sec;

    if (length > 3 && is_blank(text[length - 4]) && strcasecmp(text + length - 3, "ago") == 0)
        length -= 4;
    while (length && is_blank(text[length - 1]))
        length--;
    text[length] = '\0';
    int r = parse_short_duration(text, &sec);
    if (r == -EINVAL)
        r = parse_long_duration(text, &sec);
    if (r == 0)
        *ret = now - sec;
    return r;
}

static int parse_any(char *text, double now, double *ret)
{
    if (strcasecmp(text, "now") == 0) {
        *ret = now;
        return 0;
    }
    int r = parse_day_word(text, now, ret);
    if (r == -EINVAL)
        r = parse_time_of_day(text, now, ret);
    if (r == -EINVAL)
        r = parse_date(text, ret);
    if (r == -EINVAL)
        r = number_parse_real(text + (*text == '@'), ret);
    if (r == -EINVAL)
        r = parse_duration(text, now, ret);
    return r;
}

static bool is_sensible(double moment)
{
    return moment >= 0 && moment < YEAR_10000_SEC;
}

int time_spec_parse(const char *text, double now, double *ret)
{
    char trimmed[TIME_SPEC_MAX_BYTES + 1];
    double moment;

    skip_blanks(&text);
    size_t length = strlen(text);
    while (length && is_blank(text[length - 1]))
        length--;
    if (length > TIME_SPEC_MAX_BYTES)
        return -EINVAL;
    if (!is_sensible(now))
        return -ERANGE;
    memcpy(trimmed, text, length);
    trimmed[length] = '\0';

    int r = parse_any(trimmed, now, &moment);
    if (r < 0)
        return r;
    if (!is_sensible(moment))
        return -ERANGE;
    *ret = moment;
    return 0;
}
