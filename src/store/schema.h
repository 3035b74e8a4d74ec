/* The tables and views of the database, made from the field tables. docs/SCHEMA.md explains them.
 */
#pragma once

#include "store/column.h"
#include "store/database.h"

#define SCHEMA_APPLICATION_ID 0x736f6e64 /* "sond" */
/* Raised with every change of the tables or views, with a step in schema.c that leads there. */
#define SCHEMA_VERSION 4

/* `last_tick` of a process that is still there. Small enough for 6 bytes. */
#define TICK_OPEN      INT64_C(1000000000000)
#define TICK_OPEN_TEXT "1000000000000"

/* `age_seconds` of a sample: NULL is "follows from the snapshot's clock", this is "not known". */
#define AGE_UNKNOWN (-1)

/* Signals, kills and failures: what a report shows. With an index of its own, which is used where
 * the condition is the same. */
#define EVENT_IS_NOTABLE(alias)                                                                    \
    "(" alias "event_type IN ('signal', 'kill', 'oom') OR " alias "exit_code <> 0)"

/* The same of what was folded of a storm. */
#define FOLD_IS_NOTABLE(alias)                                                                     \
    "(" alias "event_type IN ('signal', 'kill', 'oom') OR (" alias                                 \
    "event_type = 'exit' AND " alias "code > 0))"

/* Whether a row of snap (s, of session e) is to be seen: a minute stands for the ticks before
 * full_from, and only for those. */
#define SNAPSHOT_COUNTS "s.is_minute = (s.tick < e.full_from) AND s.tick >= e.minute_from"

/* What each table holds of its record. */
struct schema {
    struct columns snapshot;
    struct columns life;   /* of a process: what hardly changes */
    struct columns sample; /* of a process: what does */
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
    const char *own;     /* columns that are not the record's; NULL: none */
    size_t columns;      /* those of the record: offset in struct schema */
    const char *key;     /* for tables that lie in the order of a key; NULL: by id */
};

const struct schema_table *schema_tables(size_t *ret_count);
const struct columns *schema_columns(const struct schema *schema, const struct schema_table *table);

/* Makes the tables in an empty database, or brings those of an older version up to date, in one
 * transaction. 0, -EPROTONOSUPPORT (newer than this) or another negative errno. */
int schema_bring_up(const struct schema *schema, struct database *database);

/* All that schema_bring_up() makes, as SQL. */
void schema_write_tables(const struct schema *schema, struct text *sql);
void schema_write_views(const struct schema *schema, struct text *sql);

/* "a, b, c" of the columns, as `write` writes each. */
void columns_list(const struct columns *columns, struct text *sql,
                  void (*write)(const struct column *column, const char *alias, struct text *sql),
                  const char *alias);
void column_name(const struct column *column, const char *alias, struct text *sql);

/* "VERB INTO table (own, columns) VALUES (?, …)"; `own` are `own_count` columns of the table's. */
int schema_prepare_insert(struct database *database, const char *verb, const char *table,
                          const char *own, size_t own_count, const struct columns *columns,
                          sqlite3_stmt **ret);

/* All numbers of texts that are in use, as a question. */
void schema_write_text_uses(const struct schema *schema, struct text *sql);
