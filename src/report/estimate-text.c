#include "report/estimate-text.h"

#include <stdio.h>

#include "base/macros.h"
#include "model/cause.h"
#include "report/figures.h"
#include "report/profile-figures.h"
#include "report/table.h"

#define INDENT 2

/* ---- an estimate ---- */

static void append_type(const char *job_type, const struct resource_estimate *estimate,
                        const struct report_style *style, struct text *out)
{
    struct human runs;

    style_tinted(style, TINT_BOLD, job_type, out);
    text_printf(out, ": estimated from %s finished run%s",
                figure_count(&runs, estimate->sample_size), estimate->sample_size == 1 ? "" : "s");
    if (!estimate->sample_size)
        text_append_string(out, ", because all runs were " OOM_KILL_TEXT);
    if (real_is_known(estimate->failure_rate))
        text_printf(out, "; %.0f %% of all runs failed", 100 * estimate->failure_rate);
    text_append_char(out, '\n');
}

int estimate_format(const char *job_type, const struct resource_estimate *estimate, bool is_sure,
                    const struct report_style *style, struct text *out)
{
    static const struct table_column columns[] = {
        {.title = ""},
        {.title = "USUAL (P50)", .is_figure = true},
        {.title = "AT MOST (P95)", .is_figure = true},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = INDENT);
    struct human figure;

    size_t start = out->length;

    append_type(job_type, estimate, style, out);
    table_add(&table, "memory, " TOGETHER);
    table_add(&table, human_mb(&figure, estimate->peak_memory_mb_p50));
    table_add(&table, human_mb(&figure, estimate->peak_memory_mb_p95));
    table_add(&table, "CPU");
    table_add(&table, figure_duration(&figure, estimate->cpu_seconds_p50));
    table_add(&table, figure_duration(&figure, estimate->cpu_seconds_p95));
    table_add(&table, "wall");
    table_add(&table, figure_duration(&figure, estimate->duration_seconds_p50));
    table_add(&table, figure_duration(&figure, estimate->duration_seconds_p95));
    table_format(&table, style, out);
    style_label("confidence", out);
    text_printf(out, "%.2f, ", estimate->confidence);
    style_tinted(style, is_sure ? TINT_GOOD : TINT_DOUBTFUL,
                 is_sure ? "sufficient" : "not sufficient", out);
    text_append_string(out, " for `sonde admit`\n");
    style_finish(style, start, out);
    return text_error(out);
}

/* ---- how accurate estimates were ---- */

/* "19 of 20, 95 %" */
static void add_held_rate(struct table *table, const struct held_rate *rate)
{
    enum tint tint = TINT_NONE;
    _cleanup_text_ struct text cell = {0};
    struct human held, checked;

    if (rate->checked <= 0) {
        table_add(table, NULL);
        return;
    }
    /* The rate is below 95 % even at the upper end of its confidence interval. */
    if (rate->rate_high < 0.95)
        tint = TINT_DOUBTFUL;
    text_printf(&cell, "%s of %s, %.0f %%", figure_count(&held, rate->held),
                figure_count(&checked, rate->checked), 100 * rate->rate);
    table_add_text(table, tint, &cell);
}

int calibration_format(const struct calibration_list *calibrations,
                       const struct report_style *style, struct text *out)
{
    static const struct table_column columns[] = {
        {.title = "TYPE", .cut_to = 12},
        {.title = "MEMORY", .is_figure = true},
        {.title = "MEMORY, IF CONFIDENT", .is_figure = true},
        {.title = "CPU", .is_figure = true, .drop_rank = 1},
        {.title = "WALL", .is_figure = true, .drop_rank = 2},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = INDENT);

    size_t start = out->length;

    for (size_t i = 0; i < calibrations->count; i++) {
        const struct calibration *calibration = &calibrations->items[i];
        table_add(&table, calibration->job_type);
        add_held_rate(&table, &calibration->memory);
        add_held_rate(&table, &calibration->memory_when_sure);
        add_held_rate(&table, &calibration->cpu);
        add_held_rate(&table, &calibration->duration);
    }
    text_append_string(out,
                       "runs that stayed within the p95 estimated from the runs before them (goal: "
                       "95 %)\n");
    table_format(&table, style, out);
    style_finish(style, start, out);
    return text_error(out);
}
