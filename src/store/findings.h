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

struct findings {
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

void findings_init(struct findings *findings, struct database *database,
                   const struct schema *schema, int64_t session);
void findings_done(struct findings *findings);

/* Within a transaction, all of them. 0 or a negative errno. */

/* By (timestamp, anomaly_type, pid, run_id): made, or brought up to date. Its pattern is kept when
 * it is made and opening. `command` is that of its process, secrets hidden; NULL: not known. Of
 * what is in `arena` nothing is needed afterwards. */
int findings_write_anomaly(struct findings *findings, const struct anomaly *anomaly,
                           const char *command, struct arena *arena);
/* Whether there may be any that this session has left open. */
bool findings_have_anomalies(const struct findings *findings);

/* See store_renew_patterns(). */
int findings_renew_patterns(struct findings *findings, const char *pattern_type,
                            const struct pattern_list *patterns);

/* By (pattern_type, pattern_name). */
int findings_put_pattern(struct findings *findings, const struct pattern *pattern);
int findings_delete_pattern(struct findings *findings, const char *pattern_type,
                            const char *pattern_name);
