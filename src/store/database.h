/* One connection to SQLite: opening with care, errors as errno and words, and the few calls that
 * everything else is written in. Knows nothing of tables. */
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
    int checkpoint_pages; /* of the log: then it is brought into the database */
    int restart_tried_at; /* pages */
    uint64_t busy_max_ns;
    struct store_error error; /* of the last call that failed */
    bool (*should_stop)(void *context);
    void *context;
};

enum database_mode {
    DATABASE_READ,  /* changes nothing, whatever is asked of it */
    DATABASE_WRITE, /* the file must be there, if only empty */
};

/* How long the log grows before it is brought into the database. Whoever comes when no other has it
 * open reads all of it first: a thousand pages would cost a short run two milliseconds. For one
 * that stays, fewer checkpoints are less work. */
#define CHECKPOINT_PAGES       250
#define CHECKPOINT_PAGES_STAYS 1000

/* Looks at the file before SQLite does, because SQLite may mend, or shorten, what is not ours. 0,
 * or a negative errno with the reason in ret->error: -ENOENT (it is missing, or, for reading,
 * empty), -EBADMSG (foreign, truncated or damaged), -EPROTONOSUPPORT (a newer sonde made it). `ret`
 * must be closed in either case. */
int database_open(const char *path, enum database_mode mode, struct database *ret);
void database_close(struct database *database);

/* Notes what SQLite said, with `doing` in front ("cannot store a snapshot"), and returns it as a
 * negative errno. */
int database_fail(struct database *database, int code, const char *doing);
/* The same for what is our own finding. */
int database_fail_with(struct database *database, int error, const char *format, ...)
    _printf_(3, 4);

int database_exec(struct database *database, const char *sql);
int database_prepare(struct database *database, const char *sql, sqlite3_stmt **ret);
/* The same with a text that was put together; its own failure included. Empties it. */
int database_prepare_text(struct database *database, struct text *sql, sqlite3_stmt **ret);

/* Runs a statement that gives no rows, and makes it ready for the next time. */
int database_run(struct database *database, sqlite3_stmt *statement);
/* The integer of the first row: 1, or 0 if there is no row or it is NULL. */
int database_step_int(struct database *database, sqlite3_stmt *statement, int64_t *ret);
/* 1 while there are rows; at the end, or on failure, the statement is made ready again. */
int database_step(struct database *database, sqlite3_stmt *statement);
/* For what is asked once: no row leaves *ret as it was. */
int database_ask_int(struct database *database, const char *sql, int64_t *ret);

/* The same for what is changed, with up to two parameters. */
int database_run_ints(struct database *database, const char *sql, int64_t first, int64_t second);

/* Turns the log on, where it is not on yet: SQLite does not wait for others there. */
int database_use_wal(struct database *database);

/* Always immediate: a transaction that upgrades from reading may fail whatever the timeout. */
int database_begin(struct database *database);
/* Commits if `result` is 0, else rolls back; returns the first failure. */
int database_end(struct database *database, int result);
