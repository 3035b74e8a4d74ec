#include "report/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "model/field.h"
#include "model/job.h"

/* The end of the year 9999: later times are not valid. */
#define EPOCH_MAX 253402300799.0
/* Longer durations would overflow the arithmetic of human_duration(). */
#define DURATION_MAX 1e15
/* Larger counts do not fit an int64_t. */
#define COUNT_MAX 9e18

const char *exactness_mark(int exactness)
{
    switch (exactness) {
    case EXACT: return "";
    case SAMPLED: return "~ ";
    default: return "≥ ";
    }
}

const char *figure_mark(double figure, int exactness)
{
    return real_is_known(figure) ? exactness_mark(exactness) : "";
}

const char *figure_duration(struct human *buffer, double seconds)
{
    /* A duration is negative if the clock was set back. */
    if (!(seconds >= 0 && seconds < DURATION_MAX))
        return strcpy(buffer->text, "-");
    return human_duration(buffer, seconds);
}

const char *figure_count(struct human *buffer, int64_t count)
{
    return count < 0 ? strcpy(buffer->text, "-") : human_count(buffer, (uint64_t)count);
}

const char *figure_tally(struct human *buffer, double count)
{
    return figure_count(buffer, count >= 0 && count < COUNT_MAX ? (int64_t)count : INT_UNKNOWN);
}

const char *figure_bytes(struct human *buffer, int64_t bytes)
{
    return human_mb(buffer, bytes < 0 ? REAL_UNKNOWN : (double)bytes / BYTES_PER_MB);
}

const char *figure_mb_range(struct human *buffer, double min_mb, double max_mb)
{
    struct human max, min;

    human_mb(&max, max_mb);
    human_mb(&min, min_mb);
    if (!real_is_known(min_mb) || !real_is_known(max_mb) || strcmp(min.text, max.text) == 0)
        return strcpy(buffer->text, max.text);
    if (strcmp(strchr(min.text, ' '), strchr(max.text, ' ')) == 0)
        *strchr(min.text, ' ') = '\0'; /* the unit once */
    snprintf(buffer->text, sizeof(buffer->text), "%.12s to %.12s", min.text, max.text);
    return buffer->text;
}

const char *figure_percent(struct human *buffer, double percent)
{
    if (!real_is_known(percent))
        return strcpy(buffer->text, "-");
    snprintf(buffer->text, sizeof(buffer->text), "%.1f %%", percent);
    return buffer->text;
}

const char *figure_cores(struct human *buffer, double cpu_percent)
{
    if (!real_is_known(cpu_percent))
        return strcpy(buffer->text, "-");
    snprintf(buffer->text, sizeof(buffer->text), "%.2f cores", cpu_percent / 100);
    return buffer->text;
}

const char *figure_pid(struct human *buffer, int64_t pid)
{
    if (pid <= 0)
        return strcpy(buffer->text, "-");
    snprintf(buffer->text, sizeof(buffer->text), "%" PRId64, pid);
    return buffer->text;
}

const char *figure_signal(struct human *buffer, int64_t number)
{
    return int_is_known(number) ? human_signal(buffer, (int)number) : strcpy(buffer->text, "-");
}

/* ---- times ---- */

static bool to_local(double epoch, struct tm *ret)
{
    if (!(epoch >= 0 && epoch <= EPOCH_MAX))
        return false;
    time_t seconds = (time_t)epoch;
    return localtime_r(&seconds, ret) != NULL;
}

/* Writes the part of the date that differs from `day`: "", "Jul 13 " or "2025-07-13 ". Returns its
 * length. */
static size_t format_date(struct human *buffer, const struct tm *local, double day)
{
    struct tm other;
    bool is_known = to_local(day, &other);

    if (!is_known || local->tm_year != other.tm_year)
        return strftime(buffer->text, sizeof(buffer->text), "%Y-%m-%d ", local);
    if (local->tm_yday != other.tm_yday)
        return strftime(buffer->text, sizeof(buffer->text), "%b %e ", local);
    return 0;
}

const char *figure_clock(struct human *buffer, double epoch, double day)
{
    struct tm local;

    if (!to_local(epoch, &local))
        return strcpy(buffer->text, "-");
    size_t length = format_date(buffer, &local, day);
    char *rest = buffer->text + length;
    size_t size = sizeof(buffer->text) - length;
    if (length)
        strftime(rest, size, "%H:%M", &local);
    else
        strftime(rest, size, "%H:%M:%S", &local);
    return buffer->text;
}

const char *figure_clock_ms(struct human *buffer, double epoch, double day)
{
    double ms = floor(epoch * 1000 + 0.5);
    double seconds = floor(ms / 1000);
    struct tm local;

    if (!to_local(seconds, &local))
        return strcpy(buffer->text, "-");
    size_t length = format_date(buffer, &local, day);
    length += strftime(buffer->text + length, sizeof(buffer->text) - length, "%H:%M:%S", &local);
    snprintf(buffer->text + length, sizeof(buffer->text) - length, ".%03d",
             (int)(ms - seconds * 1000));
    return buffer->text;
}

const char *figure_moment(struct human *buffer, double epoch)
{
    struct tm local;

    if (!to_local(epoch, &local))
        return strcpy(buffer->text, "-");
    strftime(buffer->text, sizeof(buffer->text), "%Y-%m-%d %H:%M:%S %z", &local);
    return buffer->text;
}
