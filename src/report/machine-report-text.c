/* The machine report as text: the time span, figures, processes, then events. Empty sections are
 * omitted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/cause.h"
#include "report/event-table.h"
#include "report/figures.h"
#include "report/job-table.h"
#include "report/machine-report.h"
#include "report/table.h"

/* Longest lists that are shown. */
#define PROCESSES_SHOWN 10
#define ROWS_SHOWN      20

#define INDENT 2

static void append_span(const struct machine_report *report, const struct report_style *style,
                        struct text *out)
{
    const struct machine_use *use = &report->use;
    struct human since, until, length, first, last, count;

    style_begin(style, TINT_BOLD, out);
    text_printf(out, "%s to %s", figure_moment(&since, report->since),
                figure_moment(&until, report->until));
    style_end(style, TINT_BOLD, out);
    text_printf(out, ": %s\n", figure_duration(&length, report->until - report->since));
    style_label("samples", out);
    if (use->samples > 0)
        text_printf(out, "%s, from %s to %s\n", figure_count(&count, use->samples),
                    figure_clock(&first, use->first, report->since),
                    figure_clock(&last, use->last, report->since));
    else
        text_append_string(out, "none\n");
}

static void append_counts(const struct machine_use *use, struct text *out)
{
    struct human figure;

    if (use->event_counts.count) {
        style_label("events", out);
        for (size_t i = 0; i < use->event_counts.count; i++) {
            const struct tally *tally = &use->event_counts.items[i];
            text_printf(out, "%s%s ", i ? ", " : "", figure_tally(&figure, tally->value));
            style_visible(tally->name, out);
        }
        text_append_char(out, '\n');
    }
    if (use->max_zombies > 0) {
        style_label("zombies", out);
        text_printf(out, "%s at one time at most\n", figure_count(&figure, use->max_zombies));
    }
}

/* ---- figures ---- */

typedef const char *figure_fn(struct human *buffer, double value);

static const char *figure_load(struct human *buffer, double value)
{
    if (!real_is_known(value))
        return strcpy(buffer->text, "-");
    snprintf(buffer->text, sizeof(buffer->text), "%.2f", value);
    return buffer->text;
}

static void add_figure(struct table *table, const char *name, const struct use_range *range,
                       figure_fn *figure, const char *total)
{
    struct human buffer;

    table_add(table, name);
    table_add(table, figure(&buffer, range->min));
    table_add(table, figure(&buffer, range->mean));
    table_add(table, figure(&buffer, range->max));
    table_add(table, total);
}

static void append_figures(const struct machine_use *use, const struct report_style *style,
                           struct text *out)
{
    static const struct table_column columns[] = {
        {.title = ""},
        {.title = "MIN", .is_figure = true},
        {.title = "MEAN", .is_figure = true},
        {.title = "MAX", .is_figure = true},
        {.title = "OF", .is_figure = true, .is_optional = true},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = INDENT);
    struct human percent, memory, cores;

    if (use->samples <= 0)
        return;
    add_figure(&table, "CPU", &use->system_cpu_percent, figure_percent,
               figure_percent(&percent, use->cpu_count * 100));
    add_figure(&table, "memory", &use->system_memory_used_mb, human_mb,
               human_mb(&memory, use->system_memory_total_mb));
    add_figure(&table, "load", &use->load_avg_1, figure_load, figure_load(&cores, use->cpu_count));
    text_append_char(out, '\n');
    table_format(&table, style, out);
}

/* ---- processes ---- */

static const struct table_column process_columns[] = {
    {.title = "CPU", .is_figure = true},
    {.title = "MEMORY", .is_figure = true},
    {.title = "PID", .is_figure = true},
    {.title = "JOB", .is_optional = true, .cut_to = 12, .drop_rank = 1},
    {.title = "COMMAND", .cut_to = 16},
};

static int compare_known(double a, double b)
{
    bool a_known = real_is_known(a), b_known = real_is_known(b);

    if (!a_known || !b_known)
        return b_known - a_known;
    return (a < b) - (a > b);
}

static int compare_cpu(const void *a, const void *b)
{
    const struct process_use *left = a, *right = b;
    return compare_known(left->cpu_seconds, right->cpu_seconds);
}

static int compare_memory(const void *a, const void *b)
{
    const struct process_use *left = a, *right = b;
    return compare_known(left->max_rss_mb, right->max_rss_mb);
}

static void append_top(const struct process_use_list *processes, const char *heading,
                       int (*compare)(const void *, const void *), const struct report_style *style,
                       struct text *out)
{
    _cleanup_table_ struct table table = TABLE(process_columns, .indent = INDENT);
    _cleanup_free_ struct process_use *sorted = calloc(processes->count, sizeof(*sorted));

    if (!sorted) {
        out->error = -ENOMEM;
        return;
    }
    memcpy(sorted, processes->items, processes->count * sizeof(*sorted));
    qsort(sorted, processes->count, sizeof(*sorted), compare);
    for (size_t i = 0; i < processes->count && i < PROCESSES_SHOWN; i++) {
        struct human figure;
        table_add(&table, figure_duration(&figure, sorted[i].cpu_seconds));
        table_add(&table, human_mb(&figure, sorted[i].max_rss_mb));
        table_add(&table, figure_pid(&figure, sorted[i].pid));
        table_add(&table, sorted[i].job_id);
        table_add(&table, sorted[i].command);
    }
    style_heading(style, heading, out);
    text_append_char(out, '\n');
    table_format(&table, style, out);
}

/* ---- events ---- */

static void append_heading(const struct report_style *style, const char *heading, bool has_more,
                           struct text *out)
{
    style_heading(style, heading, out);
    text_append_string(out, has_more ? " (the latest)\n" : "\n");
}

static void append_all_events(const struct machine_report *report, const struct report_style *style,
                              struct text *out)
{
    const struct event_table_options options = {.day = report->since, .indent = INDENT};
    const struct gap_list gaps = gap_list_latest(&report->gaps, ROWS_SHOWN);

    if (report->oom_kills.count) {
        append_heading(style, OOM_KILL_TEXT, false, out);
        event_table_format(&report->oom_kills, &options, style, out);
    }
    if (report->events.count) {
        append_heading(style, "signals, kills and failures", report->events_left_out != 0, out);
        event_table_format(&report->events, &options, style, out);
    }
    if (report->anomalies.count) {
        append_heading(style, "anomalies", false, out);
        anomaly_table_format(&report->anomalies, &options, style, out);
    }
    if (gaps.count) {
        append_heading(style, "gaps", gaps.count < report->gaps.count, out);
        gap_table_format(&gaps, &options, style, out);
    }
}

int machine_report_format(const struct machine_report *report, const struct report_style *style,
                          struct text *out)
{
    const struct process_use_list *processes = &report->use.processes;

    size_t start = out->length;

    append_span(report, style, out);
    append_counts(&report->use, out);
    append_figures(&report->use, style, out);
    if (report->jobs.count) {
        append_heading(style, "jobs", report->jobs_left_out != 0, out);
        job_table_format(&report->jobs, report->since, INDENT, style, out);
    }
    if (processes->count) {
        append_top(processes, "most CPU time", compare_cpu, style, out);
        append_top(processes, "most memory", compare_memory, style, out);
    }
    append_all_events(report, style, out);
    style_finish(style, start, out);
    return text_error(out);
}
