/* Two runs side by side as text: outcomes, commands, figures, steps and system calls. */
#include <math.h>
#include <string.h>

#include "base/macros.h"
#include "report/figures.h"
#include "report/hotspots.h"
#include "report/profile-figures.h"
#include "report/run-diff.h"
#include "report/table.h"

#define INDENT      2
#define CALLS_SHOWN 10

/* ---- outcomes and commands ---- */

/* "failure, SIGKILL", "failure, status 2", "success". */
static void append_outcome(const struct job *job, struct text *out)
{
    struct human name;

    style_visible(outcome_name(job->outcome), out);
    if (job->outcome == OUTCOME_FAILURE && int_is_known(job->signal_num))
        text_printf(out, ", %s", figure_signal(&name, job->signal_num));
    else if (job->outcome == OUTCOME_FAILURE && int_is_known(job->exit_code))
        text_printf(out, ", status %lld", (long long)job->exit_code);
}

static void append_run(const char *label, const struct job *job, const struct report_style *style,
                       struct text *out)
{
    struct human moment;

    style_label(label, out);
    style_tinted(style, TINT_BOLD, job->job_id, out);
    text_append_string(out, ": ");
    style_begin(style, outcome_tint(job->outcome), out);
    append_outcome(job, out);
    style_end(style, outcome_tint(job->outcome), out);
    text_printf(out, ", %s, ", figure_moment(&moment, job->started_at));
    style_visible(job->run_id, out);
    text_append_char(out, '\n');
}

/* One line if both are the same, else two. */
static void append_texts(const char *label, const char *left, const char *right, struct text *out)
{
    if (!left && !right)
        return;
    style_label(label, out);
    style_visible(left, out);
    if (!text_is_same(left, right)) {
        text_append_char(out, '\n');
        style_label("", out);
        style_visible(right, out);
    }
    text_append_char(out, '\n');
}

static void append_list(const struct text_list *list, struct text *out)
{
    for (size_t i = 0; i < list->count; i++) {
        text_append_string(out, i ? ", " : "");
        style_visible(list->items[i], out);
    }
    if (!list->count)
        text_append_string(out, "none");
}

static void append_anomalies(const struct run_diff *diff, struct text *out)
{
    if (!diff->left_anomalies.count && !diff->right_anomalies.count)
        return;
    style_label("anomalies", out);
    append_list(&diff->left_anomalies, out);
    text_append_string(out, "; ");
    append_list(&diff->right_anomalies, out);
    text_append_char(out, '\n');
}

static void append_runs(const struct run_diff *diff, const struct report_style *style,
                        struct text *out)
{
    const struct job *left = &diff->left, *right = &diff->right;

    append_run("left", left, style, out);
    append_run("right", right, style, out);
    append_texts("type", left->job_type, right->job_type, out);
    append_texts("command", left->command, right->command, out);
    append_texts("where", left->cwd, right->cwd, out);
    if (!text_is_same(left->host, right->host))
        append_texts("host", left->host, right->host, out);
    if (left->cause || right->cause)
        append_texts("cause", left->cause ? left->cause : "-", right->cause ? right->cause : "-",
                     out);
    append_anomalies(diff, out);
}

/* ---- figures, steps and system calls ---- */

static void append_figures(const struct run_diff *diff, const struct report_style *style,
                           struct text *out)
{
    static const struct table_column columns[] = {
        {.title = ""},
        {.title = "LEFT", .is_figure = true},
        {.title = "RIGHT", .is_figure = true},
        {.title = "DIFFERENCE", .is_figure = true},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = INDENT);

    for (const struct field *figure = NULL; (figure = profile_figure_next(figure));) {
        double left = profile_figure_value(figure, &diff->left.profile);
        double right = profile_figure_value(figure, &diff->right.profile);
        _cleanup_text_ struct text left_cell = {0}, right_cell = {0}, difference = {0};
        if (profile_figure_is_zero(figure, left) && profile_figure_is_zero(figure, right))
            continue;
        profile_figure_append(figure, &diff->left.profile, &left_cell);
        profile_figure_append(figure, &diff->right.profile, &right_cell);
        if (strcmp(text_string(&left_cell), text_string(&right_cell)) == 0)
            text_append_string(&difference, "same");
        else
            difference_append(right, left, &difference);
        table_add(&table, figure->label);
        table_add_text(&table, TINT_NONE, &left_cell);
        table_add_text(&table, TINT_NONE, &right_cell);
        table_add_text(&table, TINT_NONE, &difference);
    }
    text_append_char(out, '\n');
    table_format(&table, style, out);
}

static void append_sheets(const struct run_diff *diff, const struct report_style *style,
                          struct text *out)
{
    static const struct table_column columns[] = {
        {.title = "STEP", .is_figure = true},
        {.title = "NAME", .is_optional = true, .cut_to = 12},
        {.title = "LEFT"},
        {.title = "RIGHT"},
        {.title = "WALL LEFT", .is_figure = true, .drop_rank = 1},
        {.title = "WALL RIGHT", .is_figure = true, .drop_rank = 1},
        {.title = "LARGEST LEFT", .is_figure = true},
        {.title = "LARGEST RIGHT", .is_figure = true},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = INDENT);

    if (!diff->sheets.count)
        return;
    for (size_t i = 0; i < diff->sheets.count; i++) {
        const struct sheet_pair *pair = &diff->sheets.items[i];
        struct human figure;
        table_printf(&table, "%lld", (long long)pair->sheet_num);
        table_add(&table, pair->name);
        table_add_tinted(&table, outcome_tint(pair->left_outcome),
                         outcome_name(pair->left_outcome));
        table_add_tinted(&table, outcome_tint(pair->right_outcome),
                         outcome_name(pair->right_outcome));
        table_add(&table, figure_duration(&figure, pair->left_wall_seconds));
        table_add(&table, figure_duration(&figure, pair->right_wall_seconds));
        table_add(&table, human_mb(&figure, pair->left_peak_rss_mb));
        table_add(&table, human_mb(&figure, pair->right_peak_rss_mb));
    }
    style_heading(style, "steps", out);
    text_append_char(out, '\n');
    table_format(&table, style, out);
}

static void append_calls(const struct run_diff *diff, const struct report_style *style,
                         struct text *out)
{
    static const struct table_column columns[] = {
        {.title = "SYSCALL", .cut_to = 24},
        {.title = "LEFT", .is_figure = true},
        {.title = "RIGHT", .is_figure = true},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = INDENT);

    double left_busy = hotspots_busy_percent(&diff->left.profile.syscall_hotspots);
    double right_busy = hotspots_busy_percent(&diff->right.profile.syscall_hotspots);
    size_t shown = 0;

    for (size_t i = 0; i < diff->syscalls.count && shown < CALLS_SHOWN; i++) {
        const struct call_pair *pair = &diff->syscalls.items[i];
        double left = hotspots_share(pair->name, pair->left_pct, left_busy);
        double right = hotspots_share(pair->name, pair->right_pct, right_busy);
        struct human figure;
        if (!real_is_known(left))
            continue;
        table_add(&table, pair->name);
        table_add(&table, figure_percent(&figure, left));
        table_add(&table, figure_percent(&figure, right));
        shown++;
    }
    if (!shown)
        return;
    style_heading(style, "system calls", out);
    text_append_string(out, " (share of the time in calls that do not wait)\n");
    table_format(&table, style, out);
}

int run_diff_format(const struct run_diff *diff, const struct report_style *style, struct text *out)
{
    size_t start = out->length;

    append_runs(diff, style, out);
    append_figures(diff, style, out);
    append_sheets(diff, style, out);
    append_calls(diff, style, out);
    style_finish(style, start, out);
    return text_error(out);
}
