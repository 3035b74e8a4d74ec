/* Makes the tables and views of the database from the field tables. docs/SCHEMA.md explains them.
 */
#pragma once

#include "store/column.h"
#include "store/database.h"

#define SCHEMA_APPLICATION_ID 0x736f6e64 /* "sond" */
/* Raised with every change of the tables or views; schema.c has the migration to each version. */
#define SCHEMA_VERSION 6
/* That of sonde 0.1.0: readers read databases from it on. */
#define SCHEMA_VERSION_FIRST 4

/* `last_tick` of a living process. SQLite stores it in 6 bytes. */
#define TICK_OPEN      INT64_C(1000000000000)
#define TICK_OPEN_TEXT "1000000000000"

/* `age_seconds` of a sample: unknown. NULL means that it follows from the clock of the snapshot. */
#define AGE_UNKNOWN (-1)

/* Signals, kills and failures, which reports show. SQLite uses the index event_notable only for
 * exactly this condition. */
#define EVENT_IS_NOTABLE(alias)                                                                    \
    "(" alias "event_type IN ('signal', 'kill', 'oom') OR " alias "exit_code <> 0)"

/* The same condition for folded events. */
#define FOLD_IS_NOTABLE(alias)                                                                     \
    "(" alias "event_type IN ('signal', 'kill', 'oom') OR (" alias                                 \
    "event_type = 'exit' AND " alias "code > 0))"

/* The condition that a row of snap (s, of session e) is visible: minutes represent the ticks before
 * full_from, snapshots those from it on. */
#define SNAPSHOT_COUNTS "s.is_minute = (s.tick < e.full_from) AND s.tick >= e.minute_from"

/* The interval that a row of snap represents. */
#define SNAPSHOT_RESOLUTION "CASE s.is_minute WHEN 1 THEN 60.0 ELSE e.interval_seconds END"

/* The fields of each record that its table has. */
struct schema {
    struct columns snapshot;
    struct columns life;   /* table `proc`: fields of a process that rarely change */
    struct columns sample; /* tables `recent`, `history` and `minute`: its other fields */
    struct columns gpu;
    struct columns usage;
    struct columns event;
    struct columns job;
    struct columns sheet;
    struct columns anomaly;
    struct columns pattern;
    struct columns gap;
};

void schema_init(struct schema *schema);

struct schema_table {
    const char *name;
    const char *purpose; /* for people */
    const char *own;     /* columns that are not fields of the record; NULL: none */
    size_t columns;      /* fields of the record: offset in struct schema */
    const char *key;     /* primary key of a table WITHOUT ROWID; NULL: the id */
};

const struct schema_table *schema_tables(size_t *ret_count);
const struct columns *schema_columns(const struct schema *schema, const struct schema_table *table);

/* Creates the tables in an empty database, or migrates those of an older version, in one
 * transaction. Returns 0, -EPROTONOSUPPORT (a newer version) or another negative errno. */
int schema_migrate(const struct schema *schema, struct database *database);

/* Marks the columns that a database of an older version does not have: they are read as NULL.
 * Returns 0 or a negative errno. */
int schema_find_absent(struct schema *schema, struct database *database);

/* Append the SQL that creates the tables and the views. */
void schema_write_tables(const struct schema *schema, struct text *sql);
void schema_write_views(const struct schema *schema, struct text *sql);

/* Appends "a, b, c"; `write` appends each column. */
void columns_list(const struct columns *columns, struct text *sql,
                  void (*write)(const struct column *column, const char *alias, struct text *sql),
                  const char *alias);
/* Appends the quoted name of a column, after `alias`, which is empty or ends in a dot. */
void column_name(const struct column *column, const char *alias, struct text *sql);

/* Prepares "VERB INTO table (own, columns) VALUES (?, …)"; `own` names `own_count` columns. Returns
 * 0 or a negative errno. */
int schema_prepare_insert(struct database *database, const char *verb, const char *table,
                          const char *own, size_t own_count, const struct columns *columns,
                          sqlite3_stmt **ret);

/* Appends a SELECT of the ids of all texts in use. */
void schema_write_text_uses(const struct schema *schema, struct text *sql);
