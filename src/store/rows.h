/* Reads the rows of a query into lists of records. */
#pragma once

#include "store/schema.h"

/* Fills one zeroed item from one row. Returns 0 or a negative errno. */
typedef int (*row_reader)(void *context, sqlite3_stmt *row, struct arena *arena, void *item);

/* Runs `statement`, whose parameters are bound, and resets it. The items and what they point to are
 * allocated in `arena`. Returns 0 or a negative errno; *ret is set only on success. */
int rows_collect(struct database *database, sqlite3_stmt *statement, size_t item_size,
                 row_reader read, void *context, struct arena *arena, struct any_list *ret);

/* Reads the columns from `at` on into a record. Returns 0 or a negative errno. */
int row_read_columns(const struct columns *columns, sqlite3_stmt *row, int at, struct arena *arena,
                     void *object);
/* Sets *ret to a text that SQLite owns until the next step, or to NULL for NULL. Returns 0 or
 * -ENOMEM. */
int row_find_text(sqlite3_stmt *row, int at, const char **ret);
/* The same with a copy in `arena`. */
int row_read_text(sqlite3_stmt *row, int at, struct arena *arena, const char **ret);
/* INT_UNKNOWN or REAL_UNKNOWN for NULL. */
int64_t row_read_int(sqlite3_stmt *row, int at);
double row_read_real(sqlite3_stmt *row, int at);
