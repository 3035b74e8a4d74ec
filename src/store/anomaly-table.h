/* What was noticed and what was learned: the tables `anomalies` and `patterns`.
 *
 * Every anomaly that opens is kept as a pattern as well, one for each of its type and of what it is
 * about: the type of its job, or a program. How many of these there may be is limited, because
 * anybody can make up names: the rest is counted together, under "other". */
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
    /* Prepared at the first use: most sessions have none. */
    sqlite3_stmt *update_anomaly;
    sqlite3_stmt *insert_anomaly;
    sqlite3_stmt *put_pattern;
    sqlite3_stmt *count_pattern;
    sqlite3_stmt *delete_pattern;
};

void anomaly_table_init(struct anomaly_table *table, struct database *database,
                        const struct schema *schema, int64_t session);
void anomaly_table_done(struct anomaly_table *table);

/* Within a transaction, all of them. 0 or a negative errno. */

/* By (timestamp, anomaly_type, pid, run_id): made, or brought up to date. Its pattern is kept when
 * it is made and opening. `command` is that of its process, secrets hidden; NULL: not known. Of
 * what is in `arena` nothing is needed afterwards. */
int anomaly_table_write(struct anomaly_table *table, const struct anomaly *anomaly,
                        const char *command, struct arena *arena);
/* Whether there may be any that this session has left open. */
bool anomaly_table_is_used(const struct anomaly_table *table);

/* See store_renew_patterns(). */
int anomaly_table_renew_patterns(struct anomaly_table *table, const char *pattern_type,
                                 const struct pattern_list *patterns);

/* By (pattern_type, pattern_name). */
int anomaly_table_put_pattern(struct anomaly_table *table, const struct pattern *pattern);
int anomaly_table_delete_pattern(struct anomaly_table *table, const char *pattern_type,
                                 const char *pattern_name);
