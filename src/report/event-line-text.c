/* News as lines. Columns have fixed widths, because nobody knows what comes next: what is wider
 * pushes the rest of its line to the right. */
#include <stdio.h>
#include <string.h>

#include "report/event-line.h"
#include "report/event-table.h"
#include "report/figures.h"

#define KIND_COLUMNS 7 /* "anomaly" */
#define PID_COLUMNS  7
#define JOB_COLUMNS  12

/* ---- what it is about ---- */

/* The last word of its name: "exit", "started". */
static const char *last_word(const char *event)
{
    const char *dot = strrchr(event, '.');
    return dot ? dot + 1 : event;
}

const char *event_line_label(const struct event_line *news)
{
    switch (news->kind) {
    case EVENT_LINE_ANOMALY:
        return strcmp(news->event, "monitor.anomaly_cleared") == 0 ? "cleared" : "anomaly";
    case EVENT_LINE_GAP: return "gap";
    case EVENT_LINE_JOB: return "job";
    case EVENT_LINE_SHEET: return "sheet";
    default: return last_word(news->event);
    }
}

static enum tint outcome_tint_of(const struct event_line *news)
{
    const char *outcome = news->job.outcome;

    if (strcmp(news->event, "sheet.failed") == 0 || (outcome && strcmp(outcome, "failure") == 0))
        return TINT_BAD;
    return strcmp(news->event, "sheet.completed") == 0 ||
                   (outcome && strcmp(outcome, "success") == 0)
               ? TINT_GOOD
               : TINT_BOLD;
}

enum tint event_line_tint(const struct event_line *news)
{
    switch (news->kind) {
    case EVENT_LINE_PROCESS: return event_tint(&news->process);
    case EVENT_LINE_ANOMALY:
        if (real_is_known(news->anomaly.cleared_at))
            return TINT_GOOD;
        return news->anomaly.severity >= SEVERITY_HIGH ? TINT_BAD : TINT_DOUBTFUL;
    case EVENT_LINE_GAP: return TINT_DOUBTFUL;
    case EVENT_LINE_JOB:
    case EVENT_LINE_SHEET: return outcome_tint_of(news);
    default: return TINT_NONE;
    }
}

/* An event is told some time after it happened. */
double event_line_time(const struct event_line *news)
{
    return news->kind == EVENT_LINE_PROCESS ? news->process.timestamp : news->timestamp;
}

/* ---- what happened ---- */

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

/* ", exit status 2", ", killed by SIGKILL", or the cause as it was told. */
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

static void format_job(const struct event_line *news, struct text *out)
{
    const struct event_line_job *job = &news->job;
    bool is_finished = strcmp(news->event, "job.finished") == 0;

    style_visible(last_word(news->event), out);
    if (is_finished) {
        text_append_string(out, ": ");
        style_visible(job->outcome, out);
        format_end(job, out);
        return;
    }
    if (int_is_known(job->current_sheet))
        text_printf(out, ", sheet %lld", (long long)job->current_sheet);
    if (int_is_known(job->current_sheet) && int_is_known(job->total_sheets))
        text_printf(out, " of %lld", (long long)job->total_sheets);
    if (job->status) {
        text_append_string(out, ", ");
        style_visible(job->status, out);
    }
}

/* "3 failed, exit status 1 (compile)". */
static void format_sheet(const struct event_line *news, struct text *out)
{
    if (int_is_known(news->sheet_num))
        text_printf(out, "%lld ", (long long)news->sheet_num);
    style_visible(last_word(news->event), out);
    format_end(&news->job, out);
    if (news->job.name) {
        text_append_string(out, " (");
        style_visible(news->job.name, out);
        text_append_char(out, ')');
    }
}

void event_line_format_details(const struct event_line *news, struct text *out)
{
    switch (news->kind) {
    case EVENT_LINE_PROCESS: event_format(&news->process, out); break;
    case EVENT_LINE_ANOMALY: format_anomaly(&news->anomaly, out); break;
    case EVENT_LINE_GAP: format_gap(&news->gap, out); break;
    case EVENT_LINE_JOB: format_job(news, out); break;
    case EVENT_LINE_SHEET: format_sheet(news, out); break;
    default: break;
    }
}

const char *event_line_command(const struct event_line *news)
{
    if (news->kind == EVENT_LINE_PROCESS)
        return news->process.command;
    return news->kind == EVENT_LINE_JOB ? news->job.command : NULL;
}

/* ---- the line ---- */

static size_t append_padded(const char *word, size_t columns, struct text *out)
{
    size_t used = text_append_visible(out, word, strlen(word), SIZE_MAX);

    if (used < columns)
        text_append_repeated(out, ' ', columns - used);
    return MAX(used, columns);
}

static void append_rest(const struct event_line *news, struct text *out)
{
    _cleanup_text_ struct text what = {0};
    struct human pid;
    const char *command = event_line_command(news), *job = news->job_id ? news->job_id : "-";

    event_line_format_details(news, &what);
    text_printf(out, "%*s  ", PID_COLUMNS, figure_pid(&pid, event_line_pid(news)));
    append_padded(job, what.length || command ? JOB_COLUMNS : 0, out);
    if (what.length)
        text_printf(out, "  %s", what.bytes);
    if (command) {
        text_append_string(out, "  ");
        style_visible(command, out);
    }
    if (text_error(&what) < 0)
        out->error = text_error(&what);
}

void event_line_format(const struct event_line *news, double day, const struct report_style *style,
                       struct text *out)
{
    _cleanup_text_ struct text rest = {0};
    const char *kind = event_line_label(news);
    struct human time;

    figure_clock_ms(&time, event_line_time(news), day);
    text_printf(out, "%s  ", time.text);
    style_begin(style, event_line_tint(news), out);
    size_t used = append_padded(kind, KIND_COLUMNS, out);
    style_end(style, event_line_tint(news), out);
    text_append_string(out, "  ");

    append_rest(news, &rest);
    used += strlen(time.text) + 4;
    text_append_visible(out, text_string(&rest), rest.length,
                        style->columns > used ? style->columns - used : 1);
    text_append_char(out, '\n');
    if (text_error(&rest) < 0)
        out->error = text_error(&rest);
}
