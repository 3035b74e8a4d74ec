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

/* The seconds that UTC would have at that day and time, without their fraction. */
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

static bool offset_at(time_t moment, long *ret_sec)
{
    struct tm tm;

    if (!localtime_r(&moment, &tm))
        return false;
    *ret_sec = tm.tm_gmtoff;
    return true;
}

/* The moments at which the local clocks show that day and time, earliest first: one, or two where
 * they were set back. mktime() would do, but which of the two it takes, and to which side it goes
 * where the clocks skip the time, depends on what it was asked before. */
static int local_moments(const struct day *day, const struct clock_time *time, double ret[static 2])
{
    time_t utc = utc_seconds(day, time);
    double fraction = fmod(time->second, 1);
    long before, after, there;
    int count = 0;

    /* Offsets are under a day, so that these two stand on either side of any jump near it. */
    if (!offset_at(utc - SEC_PER_DAY, &before) || !offset_at(utc + SEC_PER_DAY, &after))
        return -ERANGE;
    if (offset_at(utc - before, &there) && there == before)
        ret[count++] = (double)(utc - before) + fraction;
    if (after != before && offset_at(utc - after, &there) && there == after)
        ret[count++] = (double)(utc - after) + fraction;
    if (count == 0) /* skipped: as if the clocks had not jumped yet */
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

/* The local day `days_back` days before the one that holds `now`. */
static int day_before(double now, int days_back, struct day *ret)
{
    time_t seconds = (time_t)floor(now);
    struct tm tm;

    if (!localtime_r(&seconds, &tm))
        return -ERANGE;
    /* Only the day counts from here; in UTC every day has its 24 hours. */
    struct tm day = {.tm_year = tm.tm_year, .tm_mon = tm.tm_mon, .tm_mday = tm.tm_mday - days_back};
    timegm(&day);
    *ret = (struct day){day.tm_year + 1900, day.tm_mon + 1, day.tm_mday};
    return 0;
}

static int latest_moment(const struct clock_time *time, double now, double *ret)
{
    /* A zone may have left out a whole day, as Samoa did. */
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

/* ---- pieces of text; each steps over what it took, or leaves *at alone and returns false ---- */

static bool take_char(const char **at, char wanted)
{
    if (**at != wanted)
        return false;
    (*at)++;
    return true;
}

static bool take_digits(const char **at, size_t least, size_t most, int *ret)
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

/* Not the start of a longer word. */
static bool take_word(const char **at, const char *word)
{
    size_t length = strlen(word);

    if (strncasecmp(*at, word, length) != 0 || ((*at)[length] && !is_blank((*at)[length])))
        return false;
    *at += length;
    skip_blanks(at);
    return true;
}

/* YYYY-MM-DD */
static bool take_day(const char **at, struct day *ret)
{
    const char *here = *at;
    struct day day;

    if (!take_digits(&here, 4, 4, &day.year) || !take_char(&here, '-') ||
        !take_digits(&here, 2, 2, &day.month) || !take_char(&here, '-') ||
        !take_digits(&here, 2, 2, &day.day) || !day_exists(&day))
        return false;
    *at = here;
    *ret = day;
    return true;
}

/* :SS or :SS.fraction, nothing being :00. For take_time(): moves *at in any case. */
static bool take_seconds(const char **at, double *ret)
{
    int whole, digit;
    double scale = 1;

    *ret = 0;
    if (!take_char(at, ':'))
        return true;
    if (!take_digits(at, 2, 2, &whole) || whole > 59)
        return false;
    *ret = whole;
    if (!take_char(at, '.'))
        return true;
    size_t digits = strspn(*at, "0123456789");
    for (size_t i = 0; i < digits; i++) {
        digit = *(*at)++ - '0';
        *ret += digit * (scale /= 10);
    }
    /* Enough nines round to the next second. */
    *ret = fmin(*ret, nextafter(whole + 1, 0));
    return digits > 0;
}

/* H:MM, HH:MM, HH:MM:SS, HH:MM:SS.fraction */
static bool take_time(const char **at, struct clock_time *ret)
{
    const char *here = *at;
    struct clock_time time;

    if (!take_digits(&here, 1, 2, &time.hour) || time.hour > 23 || !take_char(&here, ':') ||
        !take_digits(&here, 2, 2, &time.minute) || time.minute > 59 ||
        !take_seconds(&here, &time.second))
        return false;
    *at = here;
    *ret = time;
    return true;
}

/* Z, +HH:MM, +HHMM or the same with a minus. */
static bool take_offset(const char **at, int *ret_sec)
{
    const char *here = *at;
    int hours, minutes;

    if (take_char(&here, 'Z') || take_char(&here, 'z')) {
        *at = here;
        *ret_sec = 0;
        return true;
    }
    int sign = *here == '+' ? 1 : -1;
    if ((!take_char(&here, '+') && !take_char(&here, '-')) || !take_digits(&here, 2, 4, &hours))
        return false;
    if (here - *at == 5) {
        minutes = hours % 100;
        hours /= 100;
    } else if (here - *at != 3 || !take_char(&here, ':') || !take_digits(&here, 2, 2, &minutes)) {
        return false;
    }
    if (hours > 23 || minutes > 59)
        return false;
    *at = here;
    *ret_sec = sign * (hours * 3600 + minutes * 60);
    return true;
}

/* ---- the forms; each -EINVAL if the text has another one ---- */

static int parse_time_of_day(const char *text, double now, double *ret)
{
    struct clock_time time;

    if (!take_time(&text, &time) || *text)
        return -EINVAL;
    return latest_moment(&time, now, ret);
}

static int parse_day_word(const char *text, double now, double *ret)
{
    struct clock_time time = {0};
    struct day day;
    bool is_yesterday = take_word(&text, "yesterday");

    if (!is_yesterday && !take_word(&text, "today"))
        return -EINVAL;
    if (*text && (!take_time(&text, &time) || *text))
        return -EINVAL;
    int r = day_before(now, is_yesterday, &day);
    return r < 0 ? r : first_moment(&day, &time, ret);
}

static int parse_date(const char *text, double *ret)
{
    struct clock_time time = {0};
    struct day day;
    int offset;

    if (!take_day(&text, &day))
        return -EINVAL;
    if (!*text)
        return first_moment(&day, &time, ret);

    if (is_blank(*text))
        skip_blanks(&text);
    else if (!take_char(&text, 'T') && !take_char(&text, 't'))
        return -EINVAL;
    if (!take_time(&text, &time))
        return -EINVAL;
    if (!*text)
        return first_moment(&day, &time, ret);

    skip_blanks(&text);
    if (!take_offset(&text, &offset) || *text)
        return -EINVAL;
    *ret = (double)(utc_seconds(&day, &time) - offset) + fmod(time.second, 1);
    return 0;
}

/* `3m`, `3m ago`; without a unit it is no duration here, but an epoch or nothing. */
static int parse_duration(char *text, double now, double *ret)
{
    size_t length = strcspn(text, " \t");
    const char *rest = text + length;
    uint64_t ns;

    skip_blanks(&rest);
    if (*rest && (!take_word(&rest, "ago") || *rest))
        return -EINVAL;
    text[length] = '\0';
    if (strspn(text, "0123456789.") == length)
        return -EINVAL;
    int r = number_parse_duration(text, &ns);
    if (r < 0)
        return r;
    *ret = now - (double)ns / (double)NS_PER_SEC;
    return 0;
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
