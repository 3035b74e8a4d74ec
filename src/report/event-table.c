#include "report/event-table.h"

#include <math.h>
#include <string.h>

#include "model/event-name.h"
#include "model/process.h"
#include "report/figures.h"
#include "report/table.h"

/* ---- events ---- */

static const struct table_column event_columns[] = {
    {.title = "TIME", .is_figure = true},
    {.title = "EVENT"},
    {.title = "PID", .is_figure = true},
    {.title = "JOB", .is_optional = true, .cut_to = 12, .drop_rank = 1},
    {.title = "DETAILS", .is_optional = true, .cut_to = 12},
    {.title = "COMMAND", .is_optional = true, .cut_to = 16, .drop_rank = 2},
};

static const char *name_of(const struct record *record, const char *field, int value)
{
    return field_enum_name(record_find(record, field), value);
}

const char *event_label(const struct process_event *event)
{
    const char *name = name_of(&process_event_record, "event_type", event->event_type);

    if (event_name_of_step(event) != EVENT_NAME_UNKNOWN)
        return "step";
    return name ? name : "event";
}

enum tint event_tint(const struct process_event *event)
{
    switch (event_name_of_step(event)) {
    case EVENT_NAME_STEP_STARTED: return TINT_BOLD;
    case EVENT_NAME_STEP_COMPLETED: return TINT_GOOD;
    case EVENT_NAME_STEP_FAILED: return TINT_BAD;
    default: break;
    }
    if (event->event_type == EVENT_OOM || event_is_failure(event))
        return TINT_BAD;
    return event->event_type == EVENT_SIGNAL ? TINT_DOUBTFUL : TINT_NONE;
}

static void append_part(struct text *out, const char *part)
{
    if (out->length)
        text_append_string(out, ", ");
    style_visible(part, out);
}

static void append_sender(const struct process_event *event, struct text *out)
{
    char program[PROGRAM_MAX_BYTES + 1];
    struct human pid;

    if (!int_is_known(event->sender_pid) && !event->sender_command)
        return;
    if (event->sender_pid == 0)
        text_append_string(out, " from the kernel");
    else if (int_is_known(event->sender_pid))
        text_printf(out, " from pid %s", figure_pid(&pid, event->sender_pid));
    else
        text_append_string(out, " from");
    /* Only the program: whole command lines would make each row of a table too wide. */
    if (event->sender_command && command_program(event->sender_command, program)) {
        text_append_string(out, " (");
        style_visible(program, out);
        text_append_char(out, ')');
    }
}

/* "×19,800 within 3.20 s". */
static void append_storm(const struct process_event *event, struct text *out)
{
    struct human count, length;

    text_printf(out, "×%s", figure_count(&count, event->count));
    if (event->count > 1)
        text_printf(out, " within %s",
                    figure_duration(&length, event->timestamp - event->first_timestamp));
}

void step_format(int64_t number, const char *state, int64_t exit_code, struct text *out)
{
    if (int_is_known(number))
        text_printf(out, "%lld ", (long long)number);
    style_visible(state, out);
    if (int_is_known(exit_code) && exit_code != 0)
        text_printf(out, ", status %lld", (long long)exit_code);
}

void event_format(const struct process_event *event, struct text *out)
{
    enum event_name step = event_name_of_step(event);
    struct human figure;

    if (step != EVENT_NAME_UNKNOWN) {
        step_format(event->sheet_num, event_name_word(step), event->exit_code, out);
        return;
    }
    if (int_is_known(event->count))
        append_storm(event, out);
    if (int_is_known(event->signal_num)) {
        text_printf(out, "%s%s", out->length ? ", " : "",
                    figure_signal(&figure, event->signal_num));
        append_sender(event, out);
    }
    if (int_is_known(event->exit_code))
        text_printf(out, "%sstatus %lld", out->length ? ", " : "", (long long)event->exit_code);
    if (event->event_type == EVENT_SPAWN && event->ppid > 0)
        text_printf(out, "%sby pid %s", out->length ? ", " : "", figure_pid(&figure, event->ppid));
    if (real_is_known(event->cpu_seconds))
        text_printf(out, "%sCPU %s", out->length ? ", " : "",
                    figure_duration(&figure, event->cpu_seconds));
    if (real_is_known(event->peak_rss_mb))
        text_printf(out, "%s%s peak", out->length ? ", " : "",
                    human_mb(&figure, event->peak_rss_mb));
    if (event->details)
        append_part(out, event->details);
}

static void add_event(const struct process_event *event, const struct event_table_options *options,
                      struct table *table)
{
    _cleanup_text_ struct text details = {0};
    struct human time, pid;

    table_add(table, figure_clock_ms(&time, event->timestamp, options->day));
    table_add_tinted(table, event_tint(event), event_label(event));
    table_add(table, figure_pid(&pid, event->pid));
    table_add(table, options->without_job ? NULL : event->job_id);
    event_format(event, &details);
    table_add_text(table, TINT_NONE, &details);
    table_add(table, event->command);
}

void event_table_format(const struct process_event_list *events,
                        const struct event_table_options *options, const struct report_style *style,
                        struct text *out)
{
    _cleanup_table_ struct table table = TABLE(event_columns, .indent = options->indent);

    for (size_t i = 0; i < events->count; i++)
        add_event(&events->items[i], options, &table);
    table_format(&table, style, out);
}

/* ---- anomalies ---- */

static const struct table_column anomaly_columns[] = {
    {.title = "TIME", .is_figure = true},
    {.title = "SEVERITY"},
    {.title = "ANOMALY"},
    {.title = "LASTED", .is_figure = true, .drop_rank = 2},
    {.title = "PID", .is_figure = true, .is_optional = true},
    {.title = "JOB", .is_optional = true, .cut_to = 12, .drop_rank = 1},
    {.title = "DETAILS", .is_optional = true, .cut_to = 16},
};

static void add_anomaly(const struct anomaly *anomaly, const struct event_table_options *options,
                        struct table *table)
{
    struct human time, pid, lasted;
    enum tint tint = anomaly->severity >= SEVERITY_HIGH ? TINT_BAD : TINT_DOUBTFUL;

    table_add(table, figure_clock_ms(&time, anomaly->timestamp, options->day));
    table_add_tinted(table, tint, name_of(&anomaly_record, "severity", anomaly->severity));
    table_add(table, anomaly->anomaly_type);
    table_add(table, real_is_known(anomaly->cleared_at)
                         ? figure_duration(&lasted, anomaly->cleared_at - anomaly->timestamp)
                         : "open");
    table_add(table, anomaly->pid > 0 ? figure_pid(&pid, anomaly->pid) : NULL);
    table_add(table, options->without_job ? NULL : anomaly->job_id);
    table_add(table, anomaly->description);
}

void anomaly_table_format(const struct anomaly_list *anomalies,
                          const struct event_table_options *options,
                          const struct report_style *style, struct text *out)
{
    _cleanup_table_ struct table table = TABLE(anomaly_columns, .indent = options->indent);

    for (size_t i = 0; i < anomalies->count; i++)
        add_anomaly(&anomalies->items[i], options, &table);
    table_format(&table, style, out);
}

/* ---- gaps ---- */

static const struct table_column gap_columns[] = {
    {.title = "UNTIL", .is_figure = true},
    {.title = "GAP"},
    {.title = "REASON", .is_optional = true, .cut_to = 16},
};

void gap_format(const struct gap *gap, struct text *out)
{
    struct human length, lost;
    const char *seconds = figure_duration(&length, fabs(gap->seconds));

    switch (gap->kind) {
    case GAP_MISSED_TICKS: text_printf(out, "%s not sampled: sonde was late", seconds); break;
    case GAP_SUSPEND: text_printf(out, "%s not sampled: the machine was suspended", seconds); break;
    case GAP_CLOCK_STEP:
        text_printf(out, "the clock was set %s by %s", gap->seconds < 0 ? "back" : "forward",
                    seconds);
        break;
    case GAP_NOT_STORED:
        text_printf(out, "%s snapshots not stored", figure_count(&lost, gap->lost));
        if (gap->seconds > 0)
            text_printf(out, " over %s", seconds);
        break;
    case GAP_EVENTS:
        if (int_is_known(gap->lost))
            text_printf(out, "%s events lost", figure_count(&lost, gap->lost));
        else
            text_append_string(out, "events lost, their number is unknown");
        break;
    default: text_printf(out, "%s", seconds); break;
    }
}

struct gap_list gap_list_latest(const struct gap_list *gaps, size_t max)
{
    size_t count = MIN(gaps->count, max);

    return (struct gap_list){.items = count ? gaps->items + gaps->count - count : NULL,
                             .count = count};
}

void gap_table_format(const struct gap_list *gaps, const struct event_table_options *options,
                      const struct report_style *style, struct text *out)
{
    _cleanup_table_ struct table table = TABLE(gap_columns, .indent = options->indent);

    for (size_t i = 0; i < gaps->count; i++) {
        _cleanup_text_ struct text meaning = {0};
        struct human time;
        table_add(&table, figure_clock_ms(&time, gaps->items[i].timestamp, options->day));
        gap_format(&gaps->items[i], &meaning);
        table_add_text(&table, TINT_NONE, &meaning);
        table_add(&table, gaps->items[i].reason);
    }
    table_format(&table, style, out);
}
