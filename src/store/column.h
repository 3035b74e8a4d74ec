/* Records as columns: how each field of the field tables is kept in SQLite, said once for the
 * schema, the views, the writer and the reader.
 *
 * What is read by people with plain SQL is kept plain: numbers rounded to their resolution, names
 * of enumerators, lists as JSON. What comes by the million is kept compact: numbers as integers in
 * steps of their resolution, texts that repeat by their number in the table `text`. Unknown is NULL
 * in both. */
#pragma once

#include <sqlite3.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/text.h"
#include "model/field.h"

enum column_form {
    COLUMN_PLAIN,
    COLUMN_STEPS,  /* a number or a character as an integer */
    COLUMN_SHARED, /* the number of a text, or of a list as JSON */
};

struct column {
    char name[48];
    const struct field *field;
    size_t offset; /* of the value in the object */
    enum column_form form;
    double steps_per_unit; /* 0: numbers are kept as they are */
};

/* The widest table is `jobs`. */
#define COLUMNS_MAX 64

struct columns {
    struct column items[COLUMNS_MAX];
    size_t count;
};

/* Whether a name is in a list that ends in NULL; NULL is an empty one. */
bool names_have(const char *const *names, const char *name);

/* Adds a column for each field of `record`, which lies at `offset` in the object; records within it
 * become columns named after both. `left_out` ends in NULL, or is NULL. */
void columns_add(struct columns *columns, const struct record *record, size_t offset,
                 enum column_form numbers, enum column_form texts, const char *const *left_out);
/* -1 if there is none of that name. */
int columns_index(const struct columns *columns, const char *name);
const struct column *columns_find(const struct columns *columns, const char *name);

/* `name TYPE` */
void column_declare(const struct column *column, struct text *sql);
/* The value in its unit, as an SQL expression. */
void column_express(const struct column *column, const char *alias, struct text *sql);
/* What column_read() wants to find: raw numbers, whole texts. */
void column_select(const struct column *column, const char *alias, struct text *sql);

/* The value as one integer, so that two can be compared: a number in steps, INT_UNKNOWN if unknown,
 * a hash of a list. Texts have none. */
int64_t column_code(const struct column *column, const void *object);

/* Binds a value to the parameter `at`; a shared text by its number, which text_pool gives. 0 or a
 * negative errno. */
struct text_pool;
int column_bind(const struct column *column, const void *object, struct text_pool *pool,
                sqlite3_stmt *statement, int at);
/* The same for all columns, to the parameters from `at` on. */
int columns_bind(const struct columns *columns, const void *object, struct text_pool *pool,
                 sqlite3_stmt *statement, int at);
/* Binds what column_code() gave; for columns of numbers only. */
void column_bind_code(sqlite3_stmt *statement, int at, int64_t code);

/* 0, -ENOMEM, or -EBADMSG for what cannot have been written by us. */
int column_read(const struct column *column, sqlite3_stmt *statement, int at, struct arena *arena,
                void *object);
/* A bound as it is found: at the resolution of what it is held against. */
double column_round(const struct column *column, double value);
/* A number that was read or averaged, in steps, into the object. */
void column_set_code(const struct column *column, int64_t code, void *object);
/* Whether column_code() holds all there is to a value. */
bool column_is_number(const struct column *column);
