#include <stdio.h>
#include <string.h>

#include "model/field-format.h"
#include "top/columns.h"
#include "top/draw.h"

#define PROGRESS_COLUMNS 16

struct cells {
    const struct screen *screen;
    struct canvas *canvas;
    struct shown_columns columns;
};

/* ---- the heading ---- */

static void put_heading(const struct cells *cells, unsigned row)
{
    const struct view *view = cells->screen->view;
    struct canvas *canvas = cells->canvas;

    for (size_t i = 0; i < cells->columns.count; i++) {
        const struct shown_column *column = &cells->columns.items[i];
        bool is_last = i + 1 == cells->columns.count, is_sorted = column->field == view->sort;
        const char *arrow = !is_sorted           ? ""
                            : view->is_ascending ? canvas->glyphs->up
                                                 : canvas->glyphs->down;
        unsigned width = (unsigned)strlen(column->title) + is_sorted;
        unsigned blanks = column->width > width ? column->width - width : 0;
        enum look look = is_sorted ? LOOK_SORTED : LOOK_HEADING;
        bool is_left = field_is_text(column->field) || strcmp(column->field->name, "uid") == 0;
        if (!is_left)
            row_repeat(canvas, row, look, " ", blanks);
        row_printf(canvas, row, look, "%s%s", column->title, arrow);
        if (is_left && !is_last)
            row_repeat(canvas, row, look, " ", blanks);
        if (!is_last)
            row_put(canvas, row, LOOK_HEADING, " ");
    }
    row_whole(canvas, row, LOOK_HEADING);
}

/* ---- cells ---- */

static enum look look_of_state(char state)
{
    switch (state) {
    case 'R': return LOOK_GOOD;
    case 'D':
    case 'Z': return LOOK_BAD;
    case 'T':
    case 't': return LOOK_DOUBTFUL;
    default: return LOOK_DIM;
    }
}

/* Values near zero are dimmed. */
static enum look look_of_cell(const struct field *field, const struct row *row)
{
    const void *at = (const char *)row->figures + field->offset;

    if (field->type == FIELD_CHAR)
        return look_of_state(*(const char *)at);
    if (row->kind != ROW_PROCESS)
        return LOOK_BOLD;
    if (field->type == FIELD_REAL && field->unit == UNIT_PERCENT) {
        double percent = *(const double *)at;
        return percent >= 90 ? LOOK_BOLD : percent >= 0.05 ? LOOK_PLAIN : LOOK_DIM;
    }
    return LOOK_PLAIN;
}

static size_t format_cell(const struct cells *cells, const struct shown_column *column,
                          const struct process_metric *figures, struct text *out)
{
    const struct screen *screen = cells->screen;
    const char *name = NULL;

    if (strcmp(column->field->name, "uid") == 0 && screen->user_name && int_is_known(figures->uid))
        name = screen->user_name(screen->context, figures->uid);
    return name ? text_append_visible(out, name, strlen(name), column->width)
                : field_format(column->field, figures, column->width, out);
}

static void put_cell(const struct cells *cells, const struct shown_column *column,
                     const struct row *row, unsigned at)
{
    _cleanup_text_ struct text cell = {0};
    bool is_left = field_is_text(column->field) || strcmp(column->field->name, "uid") == 0;
    size_t used = format_cell(cells, column, row->figures, &cell);
    size_t blanks = column->width > used ? column->width - used : 0;
    enum look look = look_of_cell(column->field, row);
    bool is_blank = row->kind != ROW_PROCESS && strcmp(text_string(&cell), "-") == 0;

    if (is_blank) { /* groups have no such figure */
        row_repeat(cells->canvas, at, LOOK_PLAIN, " ", column->width + 1);
        return;
    }
    if (!is_left)
        row_repeat(cells->canvas, at, LOOK_PLAIN, " ", blanks);
    row_visible(cells->canvas, at, look, text_string(&cell), SIZE_MAX);
    if (is_left)
        row_repeat(cells->canvas, at, LOOK_PLAIN, " ", blanks);
    row_put(cells->canvas, at, LOOK_PLAIN, " ");
}

/* ---- the last column ---- */

static void put_progress(const struct job_progress *progress, struct canvas *canvas, unsigned row)
{
    struct text label = {0};
    double done =
        int_is_known(progress->last_completed_sheet) ? (double)progress->last_completed_sheet : 0;

    if (int_is_known(progress->total_sheets) && progress->total_sheets > 0) {
        text_printf(&label, "%.0f/%lld", done, (long long)progress->total_sheets);
        row_put(canvas, row, LOOK_PLAIN, "  ");
        draw_meter(canvas, row, PROGRESS_COLUMNS, done / (double)progress->total_sheets, LOOK_GOOD,
                   text_string(&label));
    }
    text_done(&label);
    if (int_is_known(progress->current_sheet))
        row_printf(canvas, row, LOOK_PLAIN, "  step %lld", (long long)progress->current_sheet);
    if (progress->status) {
        row_put(canvas, row, LOOK_PLAIN, "  ");
        row_visible(canvas, row, LOOK_DIM, progress->status, 24);
    }
}

static void put_fold(const struct row *row, struct canvas *canvas, unsigned at)
{
    const struct glyphs *glyphs = canvas->glyphs;

    row_put(canvas, at, LOOK_ACCENT,
            !row->has_children ? "  "
            : row->is_folded   ? glyphs->folded
                               : glyphs->unfolded);
}

static void put_group(const struct row *row, struct canvas *canvas, unsigned at)
{
    row_repeat(canvas, at, LOOK_DIM, canvas->glyphs->blank, row->depth);
    put_fold(row, canvas, at);
    if (row->kind == ROW_JOB)
        row_visible(canvas, at, LOOK_JOB, row->job->job_id, SIZE_MAX);
    else if (row->kind == ROW_SHEET)
        row_printf(canvas, at, LOOK_JOB, "step %lld", (long long)row->sheet_num);
    else
        row_put(canvas, at, LOOK_ACCENT, "other processes");
    if (row->alarm) {
        row_printf(canvas, at, look_of_severity(row->alarm->severity), "  %s ",
                   canvas->glyphs->alarm);
        row_visible(canvas, at, look_of_severity(row->alarm->severity), row->alarm->anomaly_type,
                    SIZE_MAX);
    }
    if (row->kind == ROW_JOB && row->progress)
        put_progress(row->progress, canvas, at);
    row_printf(canvas, at, LOOK_DIM, "  %zu process%s", row->processes,
               row->processes == 1 ? "" : "es");
}

static void put_branches(const struct cells *cells, const struct row *row, unsigned at)
{
    const struct glyphs *glyphs = cells->canvas->glyphs;
    /* The branches of deep trees must leave room for the command. */
    unsigned room = row_left(cells->canvas, at) / 2 / 3;
    unsigned depth = MIN(row->depth, room);
    bool is_tree = cells->screen->view->arrangement == AS_TREE;

    for (unsigned i = 1; i < depth; i++)
        row_put(cells->canvas, at, LOOK_DIM,
                is_tree && (row->lines >> i & 1) ? glyphs->pipe : glyphs->blank);
    if (depth && is_tree)
        row_put(cells->canvas, at, LOOK_DIM,
                row->lines >> row->depth & 1 ? glyphs->branch : glyphs->corner);
    else if (depth)
        row_put(cells->canvas, at, LOOK_DIM, "  ");
    if (is_tree && row->is_folded)
        row_put(cells->canvas, at, LOOK_ACCENT, glyphs->folded);
}

static enum look look_of_command(const struct cells *cells, const struct row *row)
{
    const struct view *view = cells->screen->view;

    if (key_set_has(&view->tagged, row->key))
        return LOOK_TAGGED;
    if (view->search[0] && row_matches(row, view->search))
        return LOOK_FOUND;
    return row->figures->state == 'Z' ? LOOK_DIM : LOOK_PLAIN;
}

static void put_process(const struct cells *cells, const struct row *row, unsigned at)
{
    struct canvas *canvas = cells->canvas;
    const char *command = row->figures->command ? row->figures->command : "-";

    put_branches(cells, row, at);
    if (key_set_has(&cells->screen->view->tagged, row->key))
        row_printf(canvas, at, LOOK_TAGGED, "%s ", canvas->glyphs->tag);
    if (row->alarm) {
        row_printf(canvas, at, look_of_severity(row->alarm->severity), "%s ",
                   canvas->glyphs->alarm);
        row_visible(canvas, at, look_of_severity(row->alarm->severity), row->alarm->anomaly_type,
                    SIZE_MAX);
        row_put(canvas, at, LOOK_PLAIN, " ");
    }
    row_shifted(canvas, at, look_of_command(cells, row), command, cells->screen->view->shift);
}

static void put_row(const struct cells *cells, const struct row *row, unsigned at)
{
    for (size_t i = 0; i + 1 < cells->columns.count; i++)
        put_cell(cells, &cells->columns.items[i], row, at);
    if (row->kind == ROW_PROCESS)
        put_process(cells, row, at);
    else
        put_group(row, cells->canvas, at);
}

static bool uses_gpu(const struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->processes.count; i++)
        if (snapshot->processes.items[i].gpu_memory_mb > 0)
            return true;
    return false;
}

/* Explains an empty table: a daemon may send only some processes, and a job may have none. */
static void put_empty_table(const struct screen *screen, struct canvas *canvas, unsigned at)
{
    const struct snapshot *snapshot = screen->frame->snapshot;
    long long total = int_is_known(snapshot->process_total) ? snapshot->process_total : 0;
    long long shown = (long long)snapshot->processes.count;

    if (screen->view->filter[0] && shown < total)
        row_printf(canvas, at, LOOK_DIM,
                   "  no process matches among the %lld of %lld shown; Esc clears the filter",
                   shown, total);
    else if (screen->view->filter[0])
        row_printf(canvas, at, LOOK_DIM, "  no process matches the filter; Esc clears it");
    else if (total)
        row_printf(canvas, at, LOOK_DIM, "  the job does not exist or has no processes now");
    else
        row_printf(canvas, at, LOOK_DIM, "  no processes");
}

void draw_table(const struct screen *screen, struct canvas *canvas, struct part heading,
                struct part part)
{
    const struct view *view = screen->view;
    struct cells cells = {.screen = screen, .canvas = canvas};

    if (!screen->frame)
        return;
    const struct columns_request request = {
        .width = canvas->columns,
        .with_jobs = view->arrangement == AS_LIST && screen->frame->snapshot->jobs.count,
        .with_gpu = screen->frame->snapshot->gpus.count && uses_gpu(screen->frame->snapshot),
        .sort = view->sort,
    };
    columns_choose(&request, &cells.columns);
    if (heading.count)
        put_heading(&cells, heading.at);
    for (unsigned i = 0; i < part.count && view->first + i < screen->listing->rows.count; i++) {
        put_row(&cells, &screen->listing->rows.items[view->first + i], part.at + i);
        if (view->first + i == view->selected)
            row_whole(canvas, part.at + i, view->follows ? LOOK_FOLLOWED : LOOK_SELECTED);
    }
    if (part.count && !screen->listing->rows.count)
        put_empty_table(screen, canvas, part.at);
}
