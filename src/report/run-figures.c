#include "report/run-figures.h"

#include "report/figures.h"
#include "report/profile-figures.h"
#include "report/style.h"

/* The structs of a summary and of a profile differ in two member names. */
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
    /* The ratio of two shorter times would be noise. */
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
    text_printf(out, "%s%s " LARGEST_PROCESS,
                figure_mark(figures->peak_rss_mb, figures->exactness.peak_rss_mb),
                human_mb(&peak, figures->peak_rss_mb));
    /* The sums of a single process are the same figures. */
    if (figures->processes == 1 || !real_is_known(figures->peak_total_mb))
        return;
    /* A second line, because all three figures do not fit into 80 columns. */
    text_append_char(out, '\n');
    style_label("", out);
    text_printf(out, "%s%s " ALL_PROCESSES, exactness_mark(figures->exactness.peak_total_mb),
                human_mb(&total, figures->peak_total_mb));
    if (real_is_known(figures->peak_unique_mb))
        text_printf(out, ", %s%s " WITHOUT_SHARED_PAGES,
                    exactness_mark(figures->exactness.peak_unique_mb),
                    human_mb(&unique, figures->peak_unique_mb));
}
