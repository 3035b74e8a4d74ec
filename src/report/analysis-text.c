#include "report/analysis-text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "report/figures.h"
#include "report/table.h"

#define INDENT 2
/* The longest list that is shown; --json prints all. */
#define PATTERNS_SHOWN 20

#define DAY_SECONDS 86400.0

static void append_counts(const struct analysis *analysis, struct text *out)
{
    struct human runs, failures, without;

    text_printf(out, "%s run%s ended with a known outcome in the last %.0f days",
                figure_count(&runs, analysis->runs), analysis->runs == 1 ? "" : "s",
                (analysis->as_of - analysis->since) / DAY_SECONDS);
    if (analysis->runs > 0)
        text_printf(out, ", %s failed (%.0f %%)", figure_count(&failures, analysis->failures),
                    100 * analysis->failure_rate);
    if (analysis->runs_without_outcome > 0)
        text_printf(out, "; the outcome of %s more is unknown",
                    figure_count(&without, analysis->runs_without_outcome));
    if (!int_is_known(analysis->runs_left_out))
        text_append_string(out, "; older runs were not read");
    if (analysis->types_left_out > 0)
        text_printf(out, "; %s types with fewer runs were not analyzed",
                    figure_count(&without, analysis->types_left_out));
    text_append_char(out, '\n');
}

/* ---- correlations ---- */

/* Does not print very small values, such as 3e-19, which mean nothing to a reader. */
static void add_q_value(struct table *table, double q)
{
    if (q < 0.001)
        table_add(table, "< 0.001");
    else
        table_printf(table, "%.3f", q);
}

static void add_correlation(struct table *table, const struct correlation *correlation)
{
    bool is_significant = correlation->significant == TRUTH_YES;
    enum tint tint = !is_significant              ? TINT_NONE
                     : correlation->deviation > 0 ? TINT_BAD
                                                  : TINT_GOOD;
    _cleanup_text_ struct text rate = {0};
    struct human runs;

    text_printf(&rate, "%.0f %%", 100 * correlation->failure_rate);
    table_add(table, correlation->job_type);
    table_add(table, correlation->figure);
    table_add(table, correlation->group);
    table_add(table, figure_count(&runs, correlation->runs));
    table_add_text(table, tint, &rate);
    table_printf(table, "%.0f-%.0f %%", 100 * correlation->rate_low, 100 * correlation->rate_high);
    table_printf(table, "%.0f %%", 100 * correlation->baseline_rate);
    add_q_value(table, correlation->q_value);
    table_printf(table, "%.2f", correlation->confidence);
    table_add_tinted(table, tint, is_significant ? "significant" : "may be chance");
}

static void append_correlations(const struct analysis *analysis, const struct report_style *style,
                                struct text *out)
{
    static const struct table_column columns[] = {
        {.title = "TYPE", .is_optional = true, .cut_to = 12},
        {.title = "FIGURE"},
        {.title = "GROUP", .cut_to = 16},
        {.title = "RUNS", .is_figure = true},
        {.title = "FAIL", .is_figure = true},
        {.title = "95 % RANGE", .is_figure = true, .drop_rank = 2},
        {.title = "ALL RUNS", .is_figure = true, .drop_rank = 1},
        {.title = "Q", .is_figure = true, .drop_rank = 4},
        {.title = "CONFIDENCE", .is_figure = true, .drop_rank = 3},
        {.title = "VERDICT"},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = INDENT);

    if (!analysis->correlations.count)
        return;
    for (size_t i = 0; i < analysis->correlations.count; i++)
        add_correlation(&table, &analysis->correlations.items[i]);
    style_heading(style, "resource use that correlates with failure or success", out);
    text_printf(out, " (%zu of %lld groups of runs differ)\n", analysis->correlations.count,
                (long long)analysis->groups_tested);
    table_format(&table, style, out);
}

/* ---- patterns ---- */

static bool is_correlation(const struct pattern *pattern)
{
    return strcmp(pattern->pattern_type, CORRELATION_PATTERN) == 0;
}

/* Correlations by confidence, then anomalies; the latest first. */
static int compare_patterns(const void *a, const void *b)
{
    const struct pattern *left = a, *right = b;

    if (is_correlation(left) != is_correlation(right))
        return is_correlation(left) ? -1 : 1;
    if (is_correlation(left) && left->confidence != right->confidence)
        return left->confidence > right->confidence ? -1 : 1;
    if (left->last_seen != right->last_seen)
        return left->last_seen > right->last_seen ? -1 : 1;
    return strcmp(left->pattern_name, right->pattern_name);
}

static void append_pattern(const struct pattern *pattern, double day,
                           const struct report_style *style, struct text *out)
{
    struct human last, times;

    text_append_string(out, "  ");
    style_tinted(style, TINT_BOLD, pattern->pattern_name, out);
    if (real_is_known(pattern->confidence))
        text_printf(out, ", confidence %.2f", pattern->confidence);
    if (pattern->occurrences > 1)
        text_printf(out, ", %s times, the last", figure_count(&times, pattern->occurrences));
    else
        text_append_char(out, ',');
    text_printf(out, " at %s", figure_clock(&last, pattern->last_seen, day));
    text_append_char(out, '\n');
    if (pattern->description) {
        text_append_string(out, "      ");
        style_visible(pattern->description, out);
        text_append_char(out, '\n');
    }
    if (pattern->suggested_action) {
        text_append_string(out, "      → ");
        style_visible(pattern->suggested_action, out);
        text_append_char(out, '\n');
    }
}

static void append_patterns(const struct analysis *analysis, const struct report_style *style,
                            struct text *out)
{
    size_t count = analysis->patterns.count, shown = MIN(count, (size_t)PATTERNS_SHOWN);

    if (!count)
        return;
    _cleanup_free_ struct pattern *sorted = malloc(count * sizeof(*sorted));
    if (!sorted) {
        out->error = -ENOMEM;
        return;
    }
    memcpy(sorted, analysis->patterns.items, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_patterns);
    style_heading(style, "patterns", out);
    text_printf(out, shown < count ? " (%zu of %zu; --json prints all)\n" : " (%zu)\n", shown,
                count);
    for (size_t i = 0; i < shown; i++)
        append_pattern(&sorted[i], analysis->as_of, style, out);
}

int analysis_format(const struct analysis *analysis, const struct report_style *style,
                    struct text *out)
{
    size_t start = out->length;

    append_counts(analysis, out);
    if (analysis->verdict != VERDICT_FOUND && analysis->message) {
        style_visible(analysis->message, out);
        text_append_char(out, '\n');
    }
    append_correlations(analysis, style, out);
    append_patterns(analysis, style, out);
    style_finish(style, start, out);
    return text_error(out);
}
