#include "report/profile-figures.h"

#include <math.h>

#include "base/macros.h"
#include "report/figures.h"

const struct field *profile_figure_next(const struct field *previous)
{
    const struct field *end = job_profile_record.fields + job_profile_record.field_count;
    const struct field *figure = previous ? previous + 1 : job_profile_record.fields;

    while (figure < end && !figure->label)
        figure++;
    return figure < end ? figure : NULL;
}

double profile_figure_value(const struct field *figure, const struct job_profile *profile)
{
    const void *value = (const char *)profile + figure->offset;

    if (figure->type == FIELD_REAL)
        return *(const double *)value;
    int64_t count = *(const int64_t *)value;
    return int_is_known(count) ? (double)count : REAL_UNKNOWN;
}

const char *profile_figure_format(const struct field *figure, struct human *buffer, double value)
{
    switch (figure->unit) {
    case UNIT_MB: return human_mb(buffer, value);
    case UNIT_BYTES: return human_mb(buffer, value / BYTES_PER_MB);
    case UNIT_SECONDS: return figure_duration(buffer, value);
    case UNIT_PERCENT: return figure_cores(buffer, value);
    default: return figure_tally(buffer, value);
    }
}

void profile_figure_append(const struct field *figure, const struct job_profile *profile,
                           struct text *out)
{
    double value = profile_figure_value(figure, profile);
    int exactness = job_profile_exactness(profile, figure);
    struct human buffer;

    if (exactness >= 0)
        text_append_string(out, figure_mark(value, exactness));
    text_append_string(out, profile_figure_format(figure, &buffer, value));
}

bool profile_figure_is_zero(const struct field *figure, double value)
{
    return figure->unit == UNIT_BYTES ? !(value >= SHOWN_MIN_BYTES) : !(value > 0);
}

void difference_append(double value, double usual, struct text *out)
{
    double ratio = value / usual;

    if (!isfinite(ratio) || !(usual > 0))
        return;
    if (ratio >= 10)
        text_printf(out, "%.0f times", ratio);
    else if (fabs(ratio - 1) < 0.005) /* would be shown as "+0 %" */
        text_append_string(out, "same");
    else
        text_printf(out, "%+.0f %%", (ratio - 1) * 100);
}
