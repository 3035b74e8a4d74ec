/* A table for a terminal: the caller adds cells row by row, table_format() writes aligned lines.
 *
 * Columns are as wide as their longest cell. If a line does not fit the terminal, columns with a
 * drop rank are omitted first, then texts are cut. Control characters in cells are escaped. Errors
 * are sticky and are passed on to the buffer that the table is formatted into. */
#pragma once

#include "base/vec.h"
#include "report/style.h"

struct table_column {
    const char *title;
    bool is_figure;     /* aligned to the right */
    bool is_optional;   /* omitted if empty in every row */
    unsigned cut_to;    /* may be cut to this many columns; 0: never */
    unsigned drop_rank; /* omitted for lack of room, the lowest first; 0: never */
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

/* Adds the next cell of the row. NULL and "" are shown as "-". */
void table_add(struct table *table, const char *text);
void table_add_tinted(struct table *table, enum tint tint, const char *text);
/* An error of `text` becomes the table's. */
void table_add_text(struct table *table, enum tint tint, const struct text *text);
void table_printf(struct table *table, const char *format, ...) _printf_(2, 3);

/* Writes the table. An error of the table becomes the buffer's. */
void table_format(const struct table *table, const struct report_style *style, struct text *out);

void table_done(struct table *table);

#define _cleanup_table_ __attribute__((cleanup(table_done)))
