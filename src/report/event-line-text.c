/* Events as lines of text. Columns have fixed widths, because later lines are not known yet. A
 * wider value shifts the rest of its line to the right. */
#include <stdio.h>
#include <string.h>

#include "report/event-line.h"
#include "report/event-table.h"
#include "report/figures.h"

#define KIND_COLUMNS 7 /* "anomaly" */
#define PID_COLUMNS  7
#define JOB_COLUMNS  12

/* ---- label, colour, time ---- */

/* The last word of an event's name: "exit", "started". */
static const char *last_word(const char *event)
{
    const char *dot = strrchr(event, '.');
    return dot ? dot + 1 : event;
}

const char *event_line_label(const struct event_line *line)
{
    switch (line->kind) {
    case EVENT_KIND_ANOMALY:
        return event_line_name(line) == EVENT_NAME_ANOMALY_CLEARED ? "cleared" : "anomaly";
    case EVENT_KIND_GAP: return "gap";
    case EVENT_KIND_JOB: return "job";
    case EVENT_KIND_STEP: return "step";
    case EVENT_KIND_PROCESS: return event_label(&line->process);
    default: return last_word(line->event);
    }
}

enum event_name event_line_name(const struct event_line *line)
{
    enum event_name step =
        line->kind == EVENT_KIND_PROCESS ? event_name_of_step(&line->process) : EVENT_NAME_UNKNOWN;
    return step != EVENT_NAME_UNKNOWN ? step : event_name_find(line->event);
}

static enum tint job_event_tint(const struct event_line *line)
{
    const char *outcome = line->job.outcome;
    enum event_name name = event_line_name(line);

    if (name == EVENT_NAME_STEP_FAILED || (outcome && strcmp(outcome, "failure") == 0))
        return TINT_BAD;
    return name == EVENT_NAME_STEP_COMPLETED || (outcome && strcmp(outcome, "success") == 0)
               ? TINT_GOOD
               : TINT_BOLD;
}

enum tint event_line_tint(const struct event_line *line)
{
    switch (line->kind) {
    case EVENT_KIND_PROCESS: return event_tint(&line->process);
    case EVENT_KIND_ANOMALY:
        if (real_is_known(line->anomaly.cleared_at))
            return TINT_GOOD;
        return line->anomaly.severity >= SEVERITY_HIGH ? TINT_BAD : TINT_DOUBTFUL;
    case EVENT_KIND_GAP: return TINT_DOUBTFUL;
    case EVENT_KIND_JOB:
    case EVENT_KIND_STEP: return job_event_tint(line);
    default: return TINT_NONE;
    }
}

double event_line_time(const struct event_line *line)
{
    return line->kind == EVENT_KIND_PROCESS ? line->process.timestamp : line->timestamp;
}

/* ---- details ---- */

/* "critical memory_spike: RSS grew …", "memory_spike, after 12.0 s". */
static void format_anomaly(const struct anomaly *anomaly, struct text *out)
{
    const char *severity =
        field_enum_name(record_find(&anomaly_record, "severity"), anomaly->severity);
    struct human lasted;

    if (real_is_known(anomaly->cleared_at)) {
        style_visible(anomaly->anomaly_type, out);
        text_printf(out, ", after %s",
                    figure_duration(&lasted, anomaly->cleared_at - anomaly->timestamp));
        return;
    }
    if (severity)
        text_printf(out, "%s ", severity);
    style_visible(anomaly->anomaly_type, out);
    if (anomaly->description) {
        text_append_string(out, ": ");
        style_visible(anomaly->description, out);
    }
}

static void format_gap(const struct gap *gap, struct text *out)
{
    gap_format(gap, out);
    if (gap->reason) {
        text_append_string(out, ": ");
        style_visible(gap->reason, out);
    }
}

/* ", exit status 2", ", killed by SIGKILL", or the cause if there is one. */
static void format_end(const struct event_line_job *job, struct text *out)
{
    struct human name;

    if (job->cause) {
        text_append_string(out, ", ");
        style_visible(job->cause, out);
    } else if (int_is_known(job->signal_num)) {
        text_printf(out, ", killed by %s", figure_signal(&name, job->signal_num));
    } else if (int_is_known(job->exit_code) && job->exit_code != 0) {
        text_printf(out, ", exit status %lld", (long long)job->exit_code);
    }
}

static void format_job(const struct event_line *line, struct text *out)
{
    const struct event_line_job *job = &line->job;

    style_visible(last_word(line->event), out);
    if (event_line_name(line) == EVENT_NAME_JOB_FINISHED) {
        text_append_string(out, ": ");
        style_visible(job->outcome, out);
        format_end(job, out);
        return;
    }
    if (int_is_known(job->current_sheet))
        text_printf(out, ", step %lld", (long long)job->current_sheet);
    if (int_is_known(job->current_sheet) && int_is_known(job->total_sheets))
        text_printf(out, " of %lld", (long long)job->total_sheets);
    if (job->status) {
        text_append_string(out, ", ");
        style_visible(job->status, out);
    }
}

/* "3 failed, status 1 (compile)". */
static void format_sheet(const struct event_line *line, struct text *out)
{
    step_format(line->sheet_num, last_word(line->event), line->job.exit_code, out);
    if (line->job.name) {
        text_append_string(out, " (");
        style_visible(line->job.name, out);
        text_append_char(out, ')');
    }
}

void event_line_format_details(const struct event_line *line, struct text *out)
{
    switch (line->kind) {
    case EVENT_KIND_PROCESS: event_format(&line->process, out); break;
    case EVENT_KIND_ANOMALY: format_anomaly(&line->anomaly, out); break;
    case EVENT_KIND_GAP: format_gap(&line->gap, out); break;
    case EVENT_KIND_JOB: format_job(line, out); break;
    case EVENT_KIND_STEP: format_sheet(line, out); break;
    default: break;
    }
}

const char *event_line_command(const struct event_line *line)
{
    if (line->kind == EVENT_KIND_PROCESS)
        return line->process.command;
    return line->kind == EVENT_KIND_JOB ? line->job.command : NULL;
}

/* ---- the line ---- */

/* Appends a word and blanks up to that many columns. Returns the columns used. */
static size_t append_padded(const char *word, size_t columns, struct text *out)
{
    size_t used = text_append_visible(out, word, strlen(word), SIZE_MAX);

    if (used < columns)
        text_append_repeated(out, ' ', columns - used);
    return MAX(used, columns);
}

/* Appends pid, job, details and command. */
static void append_rest(const struct event_line *line, struct text *out)
{
    _cleanup_text_ struct text details = {0};
    struct human pid;
    const char *command = event_line_command(line), *job = line->job_id ? line->job_id : "-";

    event_line_format_details(line, &details);
    text_printf(out, "%*s  ", PID_COLUMNS, figure_pid(&pid, event_line_pid(line)));
    append_padded(job, details.length || command ? JOB_COLUMNS : 0, out);
    if (details.length)
        text_printf(out, "  %s", details.bytes);
    if (command) {
        text_append_string(out, "  ");
        style_visible(command, out);
    }
    if (text_error(&details) < 0)
        out->error = text_error(&details);
}

void event_line_format(const struct event_line *line, double day, const struct report_style *style,
                       struct text *out)
{
    _cleanup_text_ struct text rest = {0};
    size_t start = out->length;
    const char *kind = event_line_label(line);
    struct human time;

    figure_clock_ms(&time, event_line_time(line), day);
    text_printf(out, "%s  ", time.text);
    style_begin(style, event_line_tint(line), out);
    size_t used = append_padded(kind, KIND_COLUMNS, out);
    style_end(style, event_line_tint(line), out);
    text_append_string(out, "  ");

    append_rest(line, &rest);
    used += strlen(time.text) + 4;
    (style->is_ascii ? text_append_visible_ascii : text_append_visible)(
        out, text_string(&rest), rest.length, style->columns > used ? style->columns - used : 1);
    text_append_char(out, '\n');
    style_finish(style, start, out);
    if (text_error(&rest) < 0)
        out->error = text_error(&rest);
}
