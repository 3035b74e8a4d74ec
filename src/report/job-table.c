#include "report/job-table.h"

#include "report/figures.h"
#include "report/table.h"

static const struct table_column columns[] = {
    {.title = "JOB", .cut_to = 12},
    {.title = "UID", .is_figure = true, .is_optional = true, .drop_rank = 5},
    {.title = "OUTCOME"},
    {.title = "STARTED", .is_figure = true, .drop_rank = 4},
    {.title = "WALL", .is_figure = true, .drop_rank = 3},
    {.title = "CPU", .is_figure = true, .drop_rank = 2},
    {.title = "LARGEST", .is_figure = true},
    {.title = "TYPE", .is_optional = true, .cut_to = 12, .drop_rank = 1},
};

/* "success", "failure (2)", "failure (SIGKILL)". */
static void add_outcome(const struct job *job, struct table *table)
{
    _cleanup_text_ struct text cell = {0};
    struct human name;

    style_visible(outcome_name(job->outcome), &cell);
    if (job->outcome == OUTCOME_FAILURE && int_is_known(job->signal_num))
        text_printf(&cell, " (%s)", figure_signal(&name, job->signal_num));
    else if (job->outcome == OUTCOME_FAILURE && int_is_known(job->exit_code))
        text_printf(&cell, " (%lld)", (long long)job->exit_code);
    table_add_text(table, outcome_tint(job->outcome), &cell);
}

/* Whether the runs belong to several users. Job names are per user, so the table then shows the
 * uid.
 */
static bool are_of_several_users(const struct job_list *jobs)
{
    for (size_t i = 1; i < jobs->count; i++)
        if (jobs->items[i].uid != jobs->items[0].uid)
            return true;
    return false;
}

static void add_user(const struct job *job, bool shows_user, struct table *table)
{
    if (shows_user && int_is_known(job->uid))
        table_printf(table, "%lld", (long long)job->uid);
    else
        table_add(table, NULL);
}

static void add_job(const struct job *job, bool shows_user, double now, struct table *table)
{
    const struct job_profile *profile = &job->profile;
    struct human started, wall, cpu, memory;

    table_add(table, job->job_id);
    add_user(job, shows_user, table);
    add_outcome(job, table);
    table_add(table, figure_clock(&started, job->started_at, now));
    table_add(table, figure_duration(&wall, profile->wall_seconds));
    table_printf(table, "%s%s", figure_mark(profile->cpu_seconds, profile->exactness.cpu_seconds),
                 figure_duration(&cpu, profile->cpu_seconds));
    table_printf(table, "%s%s", figure_mark(profile->peak_rss_mb, profile->exactness.peak_rss_mb),
                 human_mb(&memory, profile->peak_rss_mb));
    table_add(table, job->job_type);
}

void job_table_format(const struct job_list *jobs, double now, size_t indent,
                      const struct report_style *style, struct text *out)
{
    _cleanup_table_ struct table table = TABLE(columns, .indent = indent);

    bool shows_user = are_of_several_users(jobs);

    for (size_t i = 0; i < jobs->count; i++)
        add_job(&jobs->items[i], shows_user, now, &table);
    table_format(&table, style, out);
}
