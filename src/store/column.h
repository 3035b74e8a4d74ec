/* Columns: how each field of the field tables is stored in SQLite. The schema, the views, the
 * writers and the readers all use this definition.
 *
 * Tables that people query directly use the plain form: numbers rounded to their resolution, names
 * of enumerators, lists as JSON. Tables with millions of rows use a compact form: numbers as
 * integers in steps of their resolution, texts by their id in the table `text`. Unknown is NULL in
 * both. */
#pragma once

#include <sqlite3.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/text.h"
#include "model/field.h"

enum column_form {
    COLUMN_PLAIN,
    COLUMN_STEPS,  /* a number or a character as an integer */
    COLUMN_SHARED, /* the id of a text, or of a list as JSON, in the table `text` */
};

struct column {
    char name[48];
    const struct field *field;
    size_t offset; /* of the value in the object */
    enum column_form form;
    double steps_per_unit; /* 0: numbers are stored unchanged */
    bool is_absent;        /* this database, of an older version, does not have it: NULL */
};

/* The widest table is `jobs`. */
#define COLUMNS_MAX 64

struct columns {
    struct column items[COLUMNS_MAX];
    size_t count;
};

/* Returns whether a list of names, which ends in NULL, contains a name. A NULL list is empty. */
bool names_have(const char *const *names, const char *name);

/* Adds a column for each field of `record`, which is at `offset` in the object, except those named
 * in `left_out`. The fields of a nested record become columns named OUTER_INNER. */
void columns_add(struct columns *columns, const struct record *record, size_t offset,
                 enum column_form numbers, enum column_form texts, const char *const *left_out);
/* Returns the position of the column of that name, or -1. */
int columns_index(const struct columns *columns, const char *name);
/* Returns the column of that name, or NULL. */
const struct column *columns_find(const struct columns *columns, const char *name);

/* Appends `name TYPE`, for CREATE TABLE. */
void column_declare(const struct column *column, struct text *sql);
/* Appends an SQL expression of the value in its unit. */
void column_express(const struct column *column, const char *alias, struct text *sql);
/* Appends an SQL expression of the value as column_read() expects it: raw numbers, whole texts. */
void column_select(const struct column *column, const char *alias, struct text *sql);

/* Returns the value as an integer, for comparisons: a number in steps, the hash of a tally,
 * INT_UNKNOWN for unknown values and for texts. */
int64_t column_code(const struct column *column, const void *object);

/* Binds a value to the parameter `at`; a shared text by its id, which `pool` returns (NULL if the
 * column is not shared). Returns 0 or a negative errno: -ENOMEM, -EMSGSIZE, or an error of the
 * pool. */
struct text_pool;
int column_bind(const struct column *column, const void *object, struct text_pool *pool,
                sqlite3_stmt *statement, int at);
/* The same for all columns, from the parameter `at` on. */
int columns_bind(const struct columns *columns, const void *object, struct text_pool *pool,
                 sqlite3_stmt *statement, int at);
/* Binds a result of column_code(); for columns of numbers only. */
void column_bind_code(sqlite3_stmt *statement, int at, int64_t code);

/* Reads a value into the object; texts are allocated in `arena`. Returns 0, -ENOMEM, or -EBADMSG
 * for a value that sonde cannot have written. */
int column_read(const struct column *column, sqlite3_stmt *statement, int at, struct arena *arena,
                void *object);
/* Rounds a value to the resolution of the column, so that it can be compared with stored ones. */
double column_round(const struct column *column, double value);
/* Sets the value of a column of numbers from an integer in steps. */
void column_set_code(const struct column *column, int64_t code, void *object);
/* Returns whether column_code() represents the whole value. */
bool column_is_number(const struct column *column);
