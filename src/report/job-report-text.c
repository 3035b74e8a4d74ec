/* The report of a run as text: outcome and cause, command, resources, then steps and events. Empty
 * sections are omitted. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/cause.h"
#include "model/process.h"
#include "report/event-table.h"
#include "report/figures.h"
#include "report/hotspots.h"
#include "report/job-report.h"
#include "report/job-table.h"
#include "report/profile-figures.h"
#include "report/run-figures.h"
#include "report/storm-table.h"
#include "report/table.h"

/* Longest lists that are shown. */
#define HOTSPOTS_SHOWN 10
#define ROWS_SHOWN     20

#define INDENT 2

/* ---- outcome and cause ---- */

static void append_cause(const struct job *job, struct text *out)
{
    struct human name;

    if (job_is_lost(job)) {
        text_append_string(out, ", because its monitor died first");
    } else if (job->cause) {
        text_append_string(out, ", ");
        style_visible(job->cause, out);
        cause_append_hint(job->cause, &job->chain, job->profile.collector, out);
    } else if (int_is_known(job->signal_num)) {
        text_printf(out, ", killed by %s", figure_signal(&name, job->signal_num));
    } else if (int_is_known(job->exit_code) && job->exit_code != 0) {
        text_printf(out, ", exit status %lld", (long long)job->exit_code);
    }
}

static void append_outcome(const struct job_report *report, const struct report_style *style,
                           struct text *out)
{
    const struct job *job = &report->job;
    struct human moment;

    style_tinted(style, TINT_BOLD, job->job_id, out);
    text_append_string(out, ": ");
    style_tinted(style, outcome_tint(job->outcome), outcome_name(job->outcome), out);
    append_cause(job, out);
    if (job->outcome == OUTCOME_RUNNING)
        text_printf(out, ", figures as of %s", figure_moment(&moment, report->as_of));
    text_append_char(out, '\n');
}

/* Appends the last kill for memory, which explains an end that otherwise looks like any SIGKILL.
 * Omitted if the cause already names it. */
static void append_oom(const struct job_report *report, struct text *out)
{
    const struct process_event_list *chain = &report->job.chain;
    struct human pid, time;

    for (size_t i = 0; i < chain->count && cause_is_of_chain(report->job.cause, &report->job.chain);
         i++)
        if (chain->items[i].event_type == EVENT_OOM)
            return;
    for (size_t i = report->events.count; i > 0; i--) {
        const struct process_event *event = &report->events.items[i - 1];
        if (event->event_type != EVENT_OOM)
            continue;
        style_label("OOM", out);
        text_printf(out, "pid %s " OOM_KILL_TEXT " at %s: ", figure_pid(&pid, event->pid),
                    figure_clock_ms(&time, event->timestamp, report->job.started_at));
        style_visible(event->command, out);
        if (event->details) {
            text_append_string(out, ", ");
            style_visible(event->details, out);
        }
        text_append_char(out, '\n');
        return;
    }
}

/* The chain of failures, unless the first line contains it. */
static void append_chain(const struct job_report *report, const struct report_style *style,
                         struct text *out)
{
    const struct event_table_options options = {
        .day = report->job.started_at, .indent = INDENT, .without_job = true};

    if (report->job.chain.count < 2 || cause_is_of_chain(report->job.cause, &report->job.chain))
        return;
    style_heading(style, "chain of failures", out);
    text_append_string(out, " (first failure first)\n");
    event_table_format(&report->job.chain, &options, style, out);
}

static void append_last_memory(const struct job_report *report, const struct report_style *style,
                               struct text *out)
{
    static const struct table_column columns[] = {
        {.title = "BEFORE THE END", .is_figure = true},
        {.title = "MEMORY", .is_figure = true},
        {.title = "PROCESSES", .is_figure = true},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = INDENT);
    const struct memory_point_list *points = &report->last_memory;
    struct human figure;

    if (!points->count)
        return;
    for (size_t i = 0; i < points->count; i++) {
        const struct memory_point *point = &points->items[i];
        table_add(&table, figure_duration(&figure, report->job.ended_at - point->timestamp));
        table_add(&table, human_mb(&figure, point->rss_mb));
        table_add(&table, figure_count(&figure, point->processes));
    }
    style_heading(style, "memory in the last 30 s", out);
    text_append_string(out, " (" ALL_PROCESSES ")\n");
    table_format(&table, style, out);
}

/* ---- command, place and times ---- */

static void append_place(const struct job *job, struct text *out)
{
    if (!job->cwd && !job->host)
        return;
    style_label("where", out);
    style_visible(job->cwd, out);
    if (job->host) {
        text_append_string(out, " on ");
        style_visible(job->host, out);
    }
    if (int_is_known(job->uid))
        text_printf(out, ", uid %lld", (long long)job->uid);
    text_append_char(out, '\n');
}

static void append_identity(const struct job *job, struct text *out)
{
    struct human moment;

    style_line("command", job->command, out);
    append_place(job, out);
    style_line("type", job->job_type, out);
    style_line("run", job->run_id, out);
    style_line("part of", job->parent_run_id, out);
    style_line("started", figure_moment(&moment, job->started_at), out);
    if (real_is_known(job->ended_at))
        style_line("ended", figure_moment(&moment, job->ended_at), out);
}

/* ---- resources ---- */

/* Appends an item of a list, "≥ 12 started", unless the count is unknown. */
static void append_counted(struct text *out, bool *is_first, int64_t count, const char *mark,
                           const char *noun)
{
    struct human figure;

    if (!int_is_known(count))
        return;
    text_printf(out, "%s%s%s %s", *is_first ? "" : ", ", mark, figure_count(&figure, count), noun);
    *is_first = false;
}

static void append_processes(const struct job_profile *profile, struct text *out)
{
    const char *mark = exactness_mark(profile->exactness.processes);
    bool is_first = true;

    style_label("processes", out);
    append_counted(out, &is_first, profile->processes, mark, "started");
    append_counted(out, &is_first, profile->exit_count, mark, "ended");
    if (profile->left_running_count > 0)
        append_counted(out, &is_first, profile->left_running_count, "", "left running");
    if (profile->peak_processes > 1)
        append_counted(out, &is_first, profile->peak_processes,
                       exactness_mark(profile->exactness.peak_processes), "at one time");
    text_append_string(out, is_first ? "-\n" : "\n");
}

static void append_failures(const struct job_profile *profile, struct text *out)
{
    const char *mark = exactness_mark(profile->exactness.processes);
    struct human count;

    if (profile->failed_exit_count <= 0 && profile->kill_count <= 0)
        return;
    style_label("failed", out);
    if (profile->failed_exit_count > 0)
        text_printf(out, "%s%s with a nonzero exit status", mark,
                    figure_count(&count, profile->failed_exit_count));
    if (profile->kill_count > 0)
        text_printf(out, "%s%s%s killed by a signal", profile->failed_exit_count > 0 ? ", " : "",
                    mark, figure_count(&count, profile->kill_count));
    text_append_char(out, '\n');
}

/* Appends the counts of events that indicate a problem, if there were any. */
static void append_problems(const struct job_profile *profile, struct text *out)
{
    const struct {
        int64_t count;
        const char *label;
        const char *meaning;
    } lines[] = {
        {profile->oom_count, "OOM kills", OOM_KILL_TEXT},
        {profile->signal_count, "signals", "that did not end a process"},
        {profile->zombie_count, "zombies", "at one time at most"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        struct human count;
        if (lines[i].count <= 0)
            continue;
        style_label(lines[i].label, out);
        text_printf(out, "%s %s\n", figure_count(&count, lines[i].count), lines[i].meaning);
    }
}

/* "≥ 3.0 MB read, ≥ 1.2 MB written", without the parts that are too small to show. */
static void append_io(const struct job_profile *profile, struct text *out)
{
    bool is_first = true;

    for (const struct field *figure = NULL; (figure = profile_figure_next(figure));) {
        if (figure->unit != UNIT_BYTES ||
            profile_figure_is_zero(figure, profile_figure_value(figure, profile)))
            continue;
        if (is_first)
            style_label("I/O", out);
        text_append_string(out, is_first ? "" : ", ");
        profile_figure_append(figure, profile, out);
        text_printf(out, " %s", figure->label);
        is_first = false;
    }
    if (!is_first)
        text_append_char(out, '\n');
}

static void append_samples(const struct job_profile *profile, struct text *out)
{
    struct human count, gap;

    if (int_is_known(profile->num_samples)) {
        style_label("samples", out);
        text_append_string(out, figure_count(&count, profile->num_samples));
        if (profile->collector) {
            text_append_string(out, " by ");
            style_visible(profile->collector, out);
        }
        text_append_char(out, '\n');
    }
    if (profile->gap_seconds > 0) {
        style_label("gaps", out);
        text_printf(out, "%s not sampled\n", figure_duration(&gap, profile->gap_seconds));
    }
}

static void append_resources(const struct job_profile *profile, struct text *out)
{
    struct human figure;

    style_label("memory", out);
    run_figures_format_memory(profile, out);
    text_append_char(out, '\n');
    style_label("CPU", out);
    run_figures_format_cpu(profile, out);
    if (real_is_known(profile->max_cpu_pct))
        text_printf(out, ", peak %s", figure_cores(&figure, profile->max_cpu_pct));
    text_append_char(out, '\n');
    style_line("wall", figure_duration(&figure, profile->wall_seconds), out);
    append_processes(profile, out);
    append_failures(profile, out);
    append_problems(profile, out);
    append_io(profile, out);
    append_samples(profile, out);
}

/* ---- steps, runs and events ---- */

static void add_count(struct table *table, int64_t count, int exactness)
{
    struct human figure;

    if (int_is_known(count))
        table_printf(table, "%s%s", exactness_mark(exactness), figure_count(&figure, count));
    else
        table_add(table, NULL);
}

/* Omitted if it would be shown as 0.0 MB for all steps; so is a lower bound that states nothing. */
static void add_io(struct table *table, int64_t bytes, int exactness, bool is_shown)
{
    struct human figure;
    bool is_known = int_is_known(bytes) && (exactness == EXACT || bytes >= SHOWN_MIN_BYTES);

    if (is_shown && is_known)
        table_printf(table, "%s%s", exactness_mark(exactness), figure_bytes(&figure, bytes));
    else
        table_add(table, NULL);
}

static void append_sheets(const struct job_report *report, const struct report_style *style,
                          struct text *out)
{
    static const struct table_column columns[] = {
        {.title = "STEP", .is_figure = true},
        {.title = "NAME", .is_optional = true, .cut_to = 12},
        {.title = "OUTCOME"},
        {.title = "WALL", .is_figure = true, .drop_rank = 5},
        {.title = "CPU", .is_figure = true, .drop_rank = 7},
        {.title = "PEAK CPU", .is_figure = true, .drop_rank = 3},
        {.title = "LARGEST", .is_figure = true},
        {.title = "READ", .is_figure = true, .is_optional = true, .drop_rank = 1},
        {.title = "WRITTEN", .is_figure = true, .is_optional = true, .drop_rank = 2},
        {.title = "PROCESSES", .is_figure = true, .is_optional = true, .drop_rank = 6},
        {.title = "STARTS", .is_figure = true, .is_optional = true, .drop_rank = 4},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = INDENT);
    bool has_read = false, has_written = false;

    for (size_t i = 0; i < report->sheets.count; i++) {
        has_read |= report->sheets.items[i].read_bytes >= SHOWN_MIN_BYTES;
        has_written |= report->sheets.items[i].write_bytes >= SHOWN_MIN_BYTES;
    }
    for (size_t i = 0; i < report->sheets.count; i++) {
        const struct sheet *sheet = &report->sheets.items[i];
        struct human figure;
        table_printf(&table, "%lld", (long long)sheet->sheet_num);
        table_add(&table, sheet->name);
        table_add_tinted(&table, outcome_tint(sheet->outcome), outcome_name(sheet->outcome));
        table_add(&table, figure_duration(&figure, sheet_wall_seconds(sheet, report->as_of)));
        table_printf(&table, "%s%s", figure_mark(sheet->cpu_seconds, sheet->exactness.cpu_seconds),
                     figure_duration(&figure, sheet->cpu_seconds));
        table_add(&table, figure_cores(&figure, sheet->max_cpu_pct));
        table_printf(&table, "%s%s", figure_mark(sheet->peak_rss_mb, sheet->exactness.peak_rss_mb),
                     human_mb(&figure, sheet->peak_rss_mb));
        add_io(&table, sheet->read_bytes, sheet->exactness.read_bytes, has_read);
        add_io(&table, sheet->write_bytes, sheet->exactness.write_bytes, has_written);
        add_count(&table, sheet->processes, sheet->exactness.processes);
        add_count(&table, sheet->starts > 1 ? sheet->starts : INT_UNKNOWN, EXACT);
    }
    if (!report->sheets.count)
        return;
    style_heading(style, "steps", out);
    if (int_is_known(report->job.total_sheets))
        text_printf(out, " (%zu of %lld)", report->sheets.count,
                    (long long)report->job.total_sheets);
    text_append_char(out, '\n');
    table_format(&table, style, out);
}

static void append_runs_within(const struct job_report *report, const struct report_style *style,
                               struct text *out)
{
    if (!report->runs_within.count)
        return;
    style_heading(style, "runs started by this run", out);
    text_append_char(out, '\n');
    job_table_format(&report->runs_within, report->job.started_at, INDENT, style, out);
}

static void append_events(const struct job_report *report, const struct report_style *style,
                          struct text *out)
{
    const struct event_table_options options = {
        .day = report->job.started_at, .indent = INDENT, .without_job = true};
    struct human count;

    if (!report->events.count)
        return;
    style_heading(style, "signals, kills and failures", out);
    if (!int_is_known(report->events_left_out))
        text_append_string(out, " (the latest)");
    else if (report->events_left_out > 0)
        text_printf(out, " (the latest; %s more)", figure_count(&count, report->events_left_out));
    text_append_char(out, '\n');
    event_table_format(&report->events, &options, style, out);
}

static void append_storms(const struct job_report *report, const struct report_style *style,
                          struct text *out)
{
    const struct event_table_options options = {.indent = INDENT, .without_job = true};

    if (!report->storms.count)
        return;
    style_heading(style, "event storms", out);
    text_append_string(out, " (counted, not stored one by one)\n");
    storm_table_format(&report->storms, &options, style, out);
}

static void append_anomalies(const struct job_report *report, const struct report_style *style,
                             struct text *out)
{
    const struct event_table_options options = {
        .day = report->job.started_at, .indent = INDENT, .without_job = true};

    if (!report->anomalies.count)
        return;
    style_heading(style, "anomalies", out);
    text_append_char(out, '\n');
    anomaly_table_format(&report->anomalies, &options, style, out);
}

static void append_gaps(const struct job_report *report, const struct report_style *style,
                        struct text *out)
{
    const struct event_table_options options = {.day = report->job.started_at, .indent = INDENT};
    const struct gap_list latest = gap_list_latest(&report->gaps, ROWS_SHOWN);

    if (!latest.count)
        return;
    style_heading(style, "gaps", out);
    if (latest.count < report->gaps.count)
        text_printf(out, " (the latest; %zu more)", report->gaps.count - latest.count);
    text_append_char(out, '\n');
    gap_table_format(&latest, &options, style, out);
}

/* ---- system calls ---- */

static int compare_tallies(const void *a, const void *b)
{
    const struct tally *left = a, *right = b;
    return (left->value < right->value) - (left->value > right->value);
}

/* Returns how the shares were measured. */
static const char *syscall_method(const struct job_profile *profile)
{
    if (profile->syscall_source == SYSCALLS_SAMPLED)
        return " (sampled; without calls that wait)";
    if (profile->syscall_source == SYSCALLS_STRACE)
        return " (by strace, which slows calls down; without calls that wait)";
    if (profile->exactness.syscall_hotspots == LOWER_BOUND)
        return " (counted in part; without calls that wait)";
    return profile->exactness.syscall_hotspots == EXACT
               ? " (every call counted; without calls that wait)"
               : " (without calls that wait)";
}

static void append_hotspots(const struct job_profile *profile, const struct report_style *style,
                            struct text *out)
{
    static const struct table_column columns[] = {
        {.title = "SYSCALL", .cut_to = 24},     {.title = "TIME", .is_figure = true},
        {.title = "WALL", .is_figure = true},   {.title = "CALLS", .is_figure = true},
        {.title = "FAILED", .is_figure = true},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = INDENT);
    const struct tally_list *hotspots = &profile->syscall_hotspots;
    double busy = hotspots_busy_percent(hotspots);
    size_t count = 0;

    if (!hotspots->count)
        return;
    _cleanup_free_ struct tally *sorted = malloc(hotspots->count * sizeof(*sorted));
    if (!sorted) {
        out->error = -ENOMEM;
        return;
    }
    for (size_t i = 0; i < hotspots->count; i++) {
        const struct tally *call = &hotspots->items[i];
        double share = hotspots_share(call->name, call->value, busy);
        if (real_is_known(share))
            sorted[count++] = (struct tally){.name = call->name, .value = share};
    }
    if (!count)
        return;
    qsort(sorted, count, sizeof(*sorted), compare_tallies);
    for (size_t i = 0; i < count && i < HOTSPOTS_SHOWN; i++) {
        const char *name = sorted[i].name;
        const struct tally *calls = tally_find(&profile->syscall_counts, name);
        const struct tally *seconds = tally_find(&profile->syscall_seconds, name);
        const struct tally *errors = tally_find(&profile->syscall_errors, name);
        struct human figure;
        table_add(&table, name);
        table_add(&table, figure_percent(&figure, sorted[i].value));
        table_add(&table, seconds ? figure_duration(&figure, seconds->value) : NULL);
        table_add(&table, calls ? figure_tally(&figure, calls->value) : NULL);
        table_add(&table, errors ? figure_tally(&figure, errors->value) : NULL);
    }
    style_heading(style, "system calls", out);
    text_append_string(out, syscall_method(profile));
    text_append_char(out, '\n');
    table_format(&table, style, out);
}

int job_report_format(const struct job_report *report, const struct report_style *style,
                      struct text *out)
{
    size_t start = out->length;

    append_outcome(report, style, out);
    append_oom(report, out);
    append_identity(&report->job, out);
    append_resources(&report->job.profile, out);
    append_chain(report, style, out);
    append_last_memory(report, style, out);
    append_sheets(report, style, out);
    append_runs_within(report, style, out);
    append_events(report, style, out);
    append_storms(report, style, out);
    append_hotspots(&report->job.profile, style, out);
    append_anomalies(report, style, out);
    append_gaps(report, style, out);
    earlier_runs_format(&report->earlier_runs, &report->job, style, out);
    style_finish(style, start, out);
    return text_error(out);
}
