/* A table for a terminal: cells in, row by row; lines that fit out.
 *
 * Columns are as wide as their longest cell. Where that is more than there is room for, columns
 * that can be done without go first, then texts are cut. Cells are made visible on the way in.
 * Errors stick, and end up in the buffer that it is formatted into. */
#pragma once

#include "base/vec.h"
#include "report/style.h"

struct table_column {
    const char *title;
    bool is_figure;     /* stands right */
    bool is_optional;   /* left out where no row has anything in it */
    unsigned cut_to;    /* may be cut to so many columns; 0: never */
    unsigned drop_rank; /* left out where there is no room, the lowest first; 0: never */
};

#define TABLE_COLUMNS_MAX 12

struct table_cell {
    size_t offset; /* in `bytes` */
    size_t length;
    size_t width; /* columns on a screen */
    enum tint tint;
};

struct table {
    const struct table_column *columns;
    size_t column_count;
    size_t indent;

    struct text bytes;
    struct VEC(struct table_cell) cells;
};

/* `columns_` is an array. */
#define TABLE(columns_, ...)                                                                       \
    {                                                                                              \
        .columns = (columns_), .column_count = ARRAY_SIZE(columns_), __VA_ARGS__                   \
    }

/* The next cell of the row. Nothing (NULL or empty) is shown as "-". */
void table_add(struct table *table, const char *text);
void table_add_tinted(struct table *table, enum tint tint, const char *text);
/* Its error becomes the table's. */
void table_add_text(struct table *table, enum tint tint, const struct text *text);
void table_printf(struct table *table, const char *format, ...) _printf_(2, 3);

/* An error of the table becomes the buffer's. */
void table_format(const struct table *table, const struct report_style *style, struct text *out);

void table_done(struct table *table);

#define _cleanup_table_ __attribute__((cleanup(table_done)))
