/* The rows of a question as a list of records. */
#pragma once

#include "store/schema.h"

/* Fills one item from one row; it comes zeroed. 0 or a negative errno. */
typedef int (*row_reader)(void *context, sqlite3_stmt *row, struct arena *arena, void *item);

/* Steps through `statement`, whose parameters are bound, and makes it ready again. The items and
 * what they point to are placed in `arena`. */
int rows_collect(struct database *database, sqlite3_stmt *statement, size_t item_size,
                 row_reader read, void *context, struct arena *arena, struct any_list *ret);

/* The columns from `at` on into a record. */
int row_read_columns(const struct columns *columns, sqlite3_stmt *row, int at, struct arena *arena,
                     void *object);
/* NULL is NULL; what cannot be had for want of memory is not. The text is SQLite's, until the next
 * step. */
int row_find_text(sqlite3_stmt *row, int at, const char **ret);
int row_read_text(sqlite3_stmt *row, int at, struct arena *arena, const char **ret);
int64_t row_read_int(sqlite3_stmt *row, int at);
double row_read_real(sqlite3_stmt *row, int at);
