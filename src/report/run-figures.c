#include "report/run-figures.h"

#include "report/figures.h"
#include "report/profile-figures.h"
#include "report/style.h"

/* A lower bound of 0 tells nothing. */
static bool is_informative(double value, enum exactness exactness)
{
    return real_is_known(value) && (value > 0 || exactness == EXACT || exactness == SAMPLED);
}

void run_figures_format_cpu(const struct job_profile *profile, struct text *out)
{
    struct human cpu, user, system;

    if (!real_is_known(profile->cpu_seconds)) {
        text_append_char(out, '-');
        return;
    }
    text_printf(out, "%s%s", exactness_mark(profile->exactness.cpu_seconds),
                figure_duration(&cpu, profile->cpu_seconds));
    if (is_informative(profile->user_seconds, profile->exactness.user_seconds) ||
        is_informative(profile->system_seconds, profile->exactness.system_seconds))
        text_printf(out, " (user %s%s, system %s%s)",
                    figure_mark(profile->user_seconds, profile->exactness.user_seconds),
                    figure_duration(&user, profile->user_seconds),
                    figure_mark(profile->system_seconds, profile->exactness.system_seconds),
                    figure_duration(&system, profile->system_seconds));
    /* The ratio of two shorter times would be noise. */
    if (profile->wall_seconds >= 0.01)
        text_printf(out, ", %.2f cores", profile->cpu_seconds / profile->wall_seconds);
}

void run_figures_format_memory(const struct job_profile *profile, struct text *out)
{
    struct human peak, total, together;

    if (!real_is_known(profile->peak_rss_mb) && !real_is_known(profile->peak_total_mb)) {
        text_append_char(out, '-');
        return;
    }
    text_printf(out, "%s%s " LARGEST_PROCESS,
                figure_mark(profile->peak_rss_mb, profile->exactness.peak_rss_mb),
                human_mb(&peak, profile->peak_rss_mb));
    /* The sums of a single process are the same figures. */
    if (profile->processes == 1 || !real_is_known(profile->peak_total_mb))
        return;
    /* A second line, because all three figures do not fit into 80 columns. */
    text_append_char(out, '\n');
    style_label("", out);
    text_printf(out, "%s%s " ALL_PROCESSES, exactness_mark(profile->exactness.peak_total_mb),
                human_mb(&total, profile->peak_total_mb));
    if (real_is_known(profile->peak_unique_mb))
        text_printf(
            out, ", %s%s " TOGETHER, exactness_mark(profile->exactness.peak_unique_mb),
            figure_mb_range(&together, profile->peak_unique_min_mb, profile->peak_unique_mb));
}
