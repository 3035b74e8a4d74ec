#include "report/run-figures.h"

#include "report/figures.h"

/* Both structs name them alike. */
#define FIGURES_OF(source, cpu_member, processes_member)                                           \
    {                                                                                              \
        .wall_seconds = (source)->wall_seconds, .cpu_seconds = (source)->cpu_member,               \
        .user_seconds = (source)->user_seconds, .system_seconds = (source)->system_seconds,        \
        .peak_rss_mb = (source)->peak_rss_mb, .peak_total_mb = (source)->peak_total_mb,            \
        .peak_unique_mb = (source)->peak_unique_mb, .processes = (source)->processes_member,       \
        .exactness = (source)->exactness,                                                          \
    }

struct run_figures run_figures_of_summary(const struct run_summary *summary)
{
    return (struct run_figures)FIGURES_OF(summary, cpu_seconds, processes);
}

struct run_figures run_figures_of_profile(const struct job_profile *profile)
{
    return (struct run_figures)FIGURES_OF(profile, total_cpu_seconds, process_spawn_count);
}

void run_figures_format_cpu(const struct run_figures *figures, struct text *out)
{
    struct human cpu, user, system;

    if (!real_is_known(figures->cpu_seconds)) {
        text_append_char(out, '-');
        return;
    }
    text_printf(out, "%s%s", exactness_mark(figures->exactness.cpu_seconds),
                figure_duration(&cpu, figures->cpu_seconds));
    if (real_is_known(figures->user_seconds) || real_is_known(figures->system_seconds))
        text_printf(out, " (user %s, system %s)", figure_duration(&user, figures->user_seconds),
                    figure_duration(&system, figures->system_seconds));
    /* Below this the ratio of two tiny times says nothing. */
    if (figures->wall_seconds >= 0.01)
        text_printf(out, ", %.2f cores", figures->cpu_seconds / figures->wall_seconds);
}

void run_figures_format_memory(const struct run_figures *figures, struct text *out)
{
    struct human peak, total, unique;

    if (!real_is_known(figures->peak_rss_mb) && !real_is_known(figures->peak_total_mb)) {
        text_append_char(out, '-');
        return;
    }
    text_printf(out, "%s%s%s",
                real_is_known(figures->peak_rss_mb) ? exactness_mark(figures->exactness.peak_rss_mb)
                                                    : "",
                human_mb(&peak, figures->peak_rss_mb),
                figures->processes == 1 ? " peak" : " of one process");
    /* Of a single process the sums are the same. */
    if (figures->processes == 1)
        return;
    /* With the largest of figures, these words make a line of 80 columns. */
    if (real_is_known(figures->peak_total_mb))
        text_printf(out, ", %s%s in all", exactness_mark(figures->exactness.peak_total_mb),
                    human_mb(&total, figures->peak_total_mb));
    if (real_is_known(figures->peak_unique_mb))
        text_printf(out, " (%s unshared)", human_mb(&unique, figures->peak_unique_mb));
}
