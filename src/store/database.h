/* One connection to SQLite: checks a file before it opens it, maps SQLite's errors to errno and
 * text, and runs statements and transactions. It does not know the tables.
 *
 * Functions that return int return 0 or a negative errno, unless stated otherwise, and record the
 * text of an error in `database->error`. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/text.h"
#include "store/store.h"

struct database {
    sqlite3 *handle;
    sqlite3_stmt *begin; /* prepared at the first use */
    sqlite3_stmt *commit;
    char *path;
    int checkpoint_pages; /* length of the write-ahead log at which a checkpoint runs */
    int restart_tried_at; /* length of the log at the last attempt to restart it, in pages */
    uint64_t busy_max_ns;
    struct store_error error; /* of the last failed call */
    bool (*should_stop)(void *context);
    void *context;
};

enum database_mode {
    DATABASE_READ,  /* SQLite rejects every change */
    DATABASE_WRITE, /* the file must exist; it can be empty */
};

/* The length of the write-ahead log at which a checkpoint runs. The first process that opens the
 * database reads the whole log: a thousand pages would cost a short run two milliseconds. A
 * long-lived writer saves work with fewer checkpoints. */
#define CHECKPOINT_PAGES            250
#define CHECKPOINT_PAGES_LONG_LIVED 1000

/* Opens a database. Checks the file first, because SQLite may repair or truncate a file that is not
 * ours. Returns 0; -ENOENT if the file is missing or, for reading, empty; -EBADMSG if it belongs to
 * another program, is truncated or damaged; -EPROTONOSUPPORT if a newer version of sonde made it;
 * or another negative errno. Call database_close() also after an error.
 *
 * For writing, other users lose their rights to the database and to SQLite's files beside it, as
 * far as these belong to this user. The directory must be safe: see database-path.h. */
int database_open(const char *path, enum database_mode mode, struct database *ret);
void database_close(struct database *database);

/* Records the text of an SQLite result code, with `doing` ("cannot write to") and the path in
 * front, and returns the code as a negative errno. */
int database_fail(struct database *database, int code, const char *doing);
/* Records the general text of a negative errno, and returns it; for errors of our own. -EBADMSG: a
 * value that sonde cannot have written. */
int database_fail_errno(struct database *database, int error);
/* Records a text, and returns `error`. */
int database_fail_with(struct database *database, int error, const char *format, ...)
    _printf_(3, 4);

int database_exec(struct database *database, const char *sql);
int database_prepare(struct database *database, const char *sql, sqlite3_stmt **ret);
/* The same for SQL in a text buffer, which is emptied afterwards. Also returns an error that the
 * buffer has recorded. */
int database_prepare_text(struct database *database, struct text *sql, sqlite3_stmt **ret);

/* Runs a statement that returns no rows, and resets it. */
int database_run(struct database *database, sqlite3_stmt *statement);
/* Reads an integer from the first row, and resets the statement. Returns 1, or 0 if there is no row
 * or it is NULL. */
int database_step_int(struct database *database, sqlite3_stmt *statement, int64_t *ret);
/* Steps to the next row. Returns 1 for a row, 0 at the end, or a negative errno. At the end, and
 * after an error, the statement is reset. */
int database_step(struct database *database, sqlite3_stmt *statement);
/* Runs a query for one integer. *ret is unchanged if there is no row or the value is NULL. */
int database_query_int(struct database *database, const char *sql, int64_t *ret);

/* Prepares and runs a statement that returns no rows and has up to two parameters. */
int database_run_ints(struct database *database, const char *sql, int64_t first, int64_t second);

/* Switches to a write-ahead log. Waits for other processes itself, because SQLite does not. */
int database_use_wal(struct database *database);

/* Begins a transaction that can write from the start: upgrading a read transaction can fail at
 * once, without a timeout. */
int database_begin(struct database *database);
/* Commits if `result` is not negative, else rolls back. Returns the first error. */
int database_end(struct database *database, int result);
