#include "report/profile-figures.h"

#include <math.h>

#include "base/macros.h"
#include "report/figures.h"

/* A smaller amount is shown as 0.0 MB. */
#define SHOWN_MIN_BYTES (0.05 * BYTES_PER_MB)

#define FIGURE(member, title_, unit_, exactness, difference)                                       \
    {                                                                                              \
        .name = #member, .title = (title_), .unit = (unit_),                                       \
        .offset = offsetof(struct job_profile, member), .exactness_offset = (exactness),           \
        .min_difference = (difference),                                                            \
    }
#define EXACTNESS(member) offsetof(struct run_exactness, member)

/* The smallest differences that matter: 1 MB, one tick of the CPU clock, one process. I/O is a
 * lower bound: that after the last sample of a process is not counted. */
static const struct profile_figure figures[] = {
    FIGURE(peak_rss_mb, LARGEST_PROCESS, PROFILE_MB, EXACTNESS(peak_rss_mb), 1),
    FIGURE(peak_total_mb, ALL_PROCESSES, PROFILE_MB, EXACTNESS(peak_total_mb), 0),
    FIGURE(peak_unique_mb, WITHOUT_SHARED_PAGES, PROFILE_MB, EXACTNESS(peak_unique_mb), 1),
    FIGURE(total_cpu_seconds, "CPU", PROFILE_SECONDS, EXACTNESS(cpu_seconds), 0.01),
    FIGURE(user_seconds, "user", PROFILE_SECONDS, EXACTNESS(user_seconds), 0),
    FIGURE(system_seconds, "system", PROFILE_SECONDS, EXACTNESS(system_seconds), 0),
    FIGURE(max_cpu_pct, "peak CPU", PROFILE_CORES, FIGURE_UNMARKED, 0),
    FIGURE(wall_seconds, "wall", PROFILE_SECONDS, FIGURE_UNMARKED, 0.01),
    FIGURE(process_spawn_count, "processes", PROFILE_COUNT, EXACTNESS(processes), 1),
    FIGURE(failed_exit_count, "failed", PROFILE_COUNT, EXACTNESS(processes), 0),
    FIGURE(kill_count, "killed", PROFILE_COUNT, EXACTNESS(processes), 0),
    FIGURE(oom_count, "OOM kills", PROFILE_COUNT, FIGURE_UNMARKED, 0),
    FIGURE(signal_count, "signals", PROFILE_COUNT, FIGURE_UNMARKED, 0),
    FIGURE(zombie_count, "zombies", PROFILE_COUNT, FIGURE_UNMARKED, 0),
    FIGURE(read_bytes, "read", PROFILE_BYTES, FIGURE_LOWER_BOUND, BYTES_PER_MB),
    FIGURE(write_bytes, "written", PROFILE_BYTES, FIGURE_LOWER_BOUND, BYTES_PER_MB),
    FIGURE(gap_seconds, "gaps", PROFILE_SECONDS, FIGURE_UNMARKED, 0),
    FIGURE(num_samples, "samples", PROFILE_COUNT, FIGURE_UNMARKED, 0),
};

const struct profile_figure *profile_figures(size_t *ret_count)
{
    *ret_count = ARRAY_SIZE(figures);
    return figures;
}

double profile_figure_value(const struct profile_figure *figure, const struct job_profile *profile)
{
    const void *value = (const char *)profile + figure->offset;

    if (figure->unit != PROFILE_COUNT && figure->unit != PROFILE_BYTES)
        return *(const double *)value;
    int64_t count = *(const int64_t *)value;
    return int_is_known(count) ? (double)count : REAL_UNKNOWN;
}

const char *profile_figure_format(const struct profile_figure *figure, struct human *buffer,
                                  double value)
{
    switch (figure->unit) {
    case PROFILE_MB: return human_mb(buffer, value);
    case PROFILE_SECONDS: return figure_duration(buffer, value);
    case PROFILE_CORES: return figure_cores(buffer, value);
    case PROFILE_BYTES: return human_mb(buffer, value / BYTES_PER_MB);
    case PROFILE_COUNT: break;
    }
    return figure_tally(buffer, value);
}

void profile_figure_append(const struct profile_figure *figure, const struct job_profile *profile,
                           struct text *out)
{
    double value = profile_figure_value(figure, profile);
    struct human buffer;
    int exactness = LOWER_BOUND;

    if (figure->exactness_offset == FIGURE_UNMARKED)
        exactness = EXACT; /* no mark */
    else if (figure->exactness_offset != FIGURE_LOWER_BOUND)
        exactness = *(const int *)((const char *)&profile->exactness + figure->exactness_offset);
    text_append_string(out, figure_mark(value, exactness));
    text_append_string(out, profile_figure_format(figure, &buffer, value));
}

bool profile_figure_is_zero(const struct profile_figure *figure, double value)
{
    return figure->unit == PROFILE_BYTES ? !(value >= SHOWN_MIN_BYTES) : !(value > 0);
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
