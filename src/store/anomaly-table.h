/* Writes the tables `anomalies` and `patterns`.
 *
 * Each new anomaly also counts in a pattern, one for each type of anomaly and subject (the type of
 * its job, or its program). The number of these patterns is limited, because users choose the
 * names; the rest counts in one pattern with the subject "other". */
#pragma once

#include "model/event.h"
#include "model/pattern.h"
#include "store/schema.h"
#include "store/text-pool.h"

#define ANOMALY_PATTERN       "RESOURCE_ANOMALY"
#define ANOMALY_PATTERNS_MAX  1000
#define ANOMALY_PATTERNS_REST "other"

struct anomaly_table {
    struct database *database;
    const struct schema *schema;
    int64_t session;
    /* Prepared at the first use: most sessions have no anomalies. */
    sqlite3_stmt *update_anomaly;
    sqlite3_stmt *insert_anomaly;
    sqlite3_stmt *upsert_pattern;
    sqlite3_stmt *count_pattern;
};

void anomaly_table_init(struct anomaly_table *table, struct database *database,
                        const struct schema *schema, int64_t session);
void anomaly_table_done(struct anomaly_table *table);

/* The functions below run within a transaction and return 0 or a negative errno. */

/* Inserts or updates the anomaly (timestamp, anomaly_type, pid, run_id); a new one that is opening
 * counts in its pattern. `command` is the redacted command line of its process; NULL: unknown.
 * Nothing in `arena` is needed afterwards. */
int anomaly_table_write(struct anomaly_table *table, const struct anomaly *anomaly,
                        const char *command, struct arena *arena);
/* Returns whether this session has written an anomaly, which may still be open. */
bool anomaly_table_is_used(const struct anomaly_table *table);

/* See store_renew_patterns(). */
int anomaly_table_renew_patterns(struct anomaly_table *table, const char *pattern_type,
                                 const struct pattern_list *patterns);
