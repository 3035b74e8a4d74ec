#include "report/table.h"

#include <stdarg.h>
#include <string.h>

#define GAP_WIDTH 2 /* between two columns */

void table_add_tinted(struct table *table, enum tint tint, const char *text)
{
    struct table_cell cell = {.offset = table->bytes.length, .tint = tint};

    cell.width = text ? text_append_visible(&table->bytes, text, strlen(text), SIZE_MAX) : 0;
    cell.length = table->bytes.length - cell.offset;
    if (table->bytes.error == 0)
        table->bytes.error = VEC_PUSH(&table->cells, cell);
}

void table_add(struct table *table, const char *text)
{
    table_add_tinted(table, TINT_NONE, text);
}

void table_add_text(struct table *table, enum tint tint, const struct text *text)
{
    if (table->bytes.error == 0)
        table->bytes.error = text_error(text);
    table_add_tinted(table, tint, text_string(text));
}

void table_printf(struct table *table, const char *format, ...)
{
    _cleanup_text_ struct text cell = {0};
    va_list arguments;

    va_start(arguments, format);
    text_vprintf(&cell, format, arguments);
    va_end(arguments);
    table_add_text(table, TINT_NONE, &cell);
}

void table_done(struct table *table)
{
    text_done(&table->bytes);
    VEC_DONE(&table->cells);
}

/* ---- layout ---- */

/* A column that is omitted has width 0. */
struct layout {
    size_t widths[TABLE_COLUMNS_MAX];
    size_t column_count;
};

static size_t row_count(const struct table *table)
{
    return table->cells.count / table->column_count;
}

static const struct table_cell *cell_at(const struct table *table, size_t row, size_t column)
{
    return &table->cells.items[row * table->column_count + column];
}

static size_t natural_width(const struct table *table, size_t column)
{
    size_t widest = 0;

    for (size_t row = 0; row < row_count(table); row++)
        widest = MAX(widest, cell_at(table, row, column)->width);
    if (widest == 0 && table->columns[column].is_optional)
        return 0;
    widest = MAX(widest, strlen(table->columns[column].title));
    return widest ? widest : 1; /* for a "-" */
}

/* The width of a line with every text cut to its minimum (`is_cut`), or not cut. */
static size_t line_width(const struct table *table, const struct layout *layout, bool is_cut)
{
    size_t width = table->indent;

    for (size_t i = 0; i < layout->column_count; i++) {
        size_t cut_to = table->columns[i].cut_to;
        bool is_narrowed = is_cut && cut_to && layout->widths[i] > cut_to;
        if (layout->widths[i])
            width += (is_narrowed ? cut_to : layout->widths[i]) + GAP_WIDTH;
    }
    return width - MIN(width, (size_t)GAP_WIDTH);
}

/* The column to omit next, or -1 if none is left. */
static int find_droppable(const struct table *table, const struct layout *layout)
{
    int found = -1;

    for (size_t i = 0; i < layout->column_count; i++)
        if (layout->widths[i] && table->columns[i].drop_rank &&
            (found < 0 || table->columns[i].drop_rank < table->columns[found].drop_rank))
            found = (int)i;
    return found;
}

/* The widest column that can be cut further, or -1. */
static int find_widest(const struct table *table, const struct layout *layout)
{
    int found = -1;

    for (size_t i = 0; i < layout->column_count; i++)
        if (table->columns[i].cut_to && layout->widths[i] > table->columns[i].cut_to &&
            (found < 0 || layout->widths[i] > layout->widths[found]))
            found = (int)i;
    return found;
}

static void lay_out(const struct table *table, size_t columns, struct layout *ret)
{
    int at;

    ret->column_count = table->column_count;
    for (size_t i = 0; i < table->column_count; i++)
        ret->widths[i] = natural_width(table, i);
    while (line_width(table, ret, true) > columns && (at = find_droppable(table, ret)) >= 0)
        ret->widths[at] = 0;
    while (line_width(table, ret, false) > columns && (at = find_widest(table, ret)) >= 0)
        ret->widths[at]--;
}

/* ---- text ---- */

static bool is_last(const struct layout *layout, size_t column)
{
    for (size_t i = column + 1; i < layout->column_count; i++)
        if (layout->widths[i])
            return false;
    return true;
}

/* The content of a cell, as it is written. */
struct shown {
    const char *bytes;
    size_t length;
    size_t width;
    enum tint tint;
};

static void append_cell(const struct table *table, const struct layout *layout,
                        const struct report_style *style, size_t column, struct shown shown,
                        struct text *out)
{
    size_t width = layout->widths[column];
    size_t used = 0;

    if (table->columns[column].is_figure) {
        used = width - MIN(shown.width, width);
        text_append_repeated(out, ' ', used);
    }
    style_begin(style, shown.tint, out);
    used += (style->is_ascii ? text_append_visible_ascii
                             : text_append_visible)(out, shown.bytes, shown.length, width);
    style_end(style, shown.tint, out);
    if (is_last(layout, column))
        text_append_char(out, '\n');
    else
        text_append_repeated(out, ' ', width - used + GAP_WIDTH);
}

static void append_titles(const struct table *table, const struct layout *layout,
                          const struct report_style *style, struct text *out)
{
    text_append_repeated(out, ' ', table->indent);
    for (size_t i = 0; i < layout->column_count; i++) {
        const char *title = table->columns[i].title;
        struct shown shown = {title, strlen(title), strlen(title), TINT_BOLD};
        if (layout->widths[i])
            append_cell(table, layout, style, i, shown, out);
    }
}

static void append_row(const struct table *table, const struct layout *layout,
                       const struct report_style *style, size_t row, struct text *out)
{
    text_append_repeated(out, ' ', table->indent);
    for (size_t i = 0; i < layout->column_count; i++) {
        const struct table_cell *cell = cell_at(table, row, i);
        struct shown shown = {"-", 1, 1, TINT_NONE};
        if (cell->length)
            shown = (struct shown){table->bytes.bytes + cell->offset, cell->length, cell->width,
                                   cell->tint};
        if (layout->widths[i])
            append_cell(table, layout, style, i, shown, out);
    }
}

/* A copy of the table with all cells in ASCII; an error is the copy's. */
static struct table to_ascii(const struct table *table)
{
    struct table ascii = {
        .columns = table->columns, .column_count = table->column_count, .indent = table->indent};

    for (size_t i = 0; i < table->cells.count && ascii.bytes.error == 0; i++) {
        struct table_cell cell = table->cells.items[i];
        const char *bytes = table->bytes.bytes + cell.offset;
        cell.offset = ascii.bytes.length;
        if (cell.length)
            cell.width = text_append_visible_ascii(&ascii.bytes, bytes, cell.length, SIZE_MAX);
        cell.length = ascii.bytes.length - cell.offset;
        if (ascii.bytes.error == 0)
            ascii.bytes.error = VEC_PUSH(&ascii.cells, cell);
    }
    return ascii;
}

void table_format(const struct table *table, const struct report_style *style, struct text *out)
{
    _cleanup_table_ struct table ascii = {0};
    struct layout layout;

    if (style->is_ascii && text_error(&table->bytes) == 0) {
        ascii = to_ascii(table);
        table = &ascii;
    }
    if (text_error(&table->bytes) < 0) {
        out->error = text_error(&table->bytes);
        return;
    }
    lay_out(table, style->columns, &layout);
    append_titles(table, &layout, style, out);
    for (size_t row = 0; row < row_count(table); row++)
        append_row(table, &layout, style, row, out);
}
