#include "store/anomaly-table.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "model/job.h"
#include "model/process.h"

/* The subject of a pattern: the type of a job, or the name of a program. */
#define SUBJECT_MAX_BYTES JOB_ID_MAX_BYTES
static_assert(PROGRAM_MAX_BYTES <= SUBJECT_MAX_BYTES, "the name of a program fits");

void anomaly_table_init(struct anomaly_table *table, struct database *database,
                        const struct schema *schema, int64_t session)
{
    *table = (struct anomaly_table){.database = database, .schema = schema, .session = session};
}

void anomaly_table_done(struct anomaly_table *table)
{
    sqlite3_stmt *statements[] = {table->update_anomaly, table->insert_anomaly,
                                  table->upsert_pattern, table->count_pattern};

    for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
        sqlite3_finalize(statements[i]);
    *table = (struct anomaly_table){0};
}

/* ---- patterns ---- */

static int upsert_pattern(struct anomaly_table *table, const struct pattern *pattern)
{
    int r = columns_bind(&table->schema->pattern, pattern, NULL, table->upsert_pattern, 1);

    if (r == -ENOMEM)
        return database_fail_errno(table->database, -ENOMEM);
    return r < 0 ? r : database_run(table->database, table->upsert_pattern);
}

static int prepare_upsert(struct anomaly_table *table)
{
    const struct columns *columns = &table->schema->pattern;
    _cleanup_text_ struct text sql = {0};

    text_append_string(&sql, "INSERT INTO patterns (");
    columns_list(columns, &sql, column_name, "");
    text_append_string(&sql, ") VALUES (");
    for (size_t i = 0; i < columns->count; i++)
        text_append_string(&sql, i ? ", ?" : "?");
    text_append_string(&sql, ") ON CONFLICT DO UPDATE SET description = excluded.description,"
                             " context_tags = excluded.context_tags,"
                             " suggested_action = excluded.suggested_action,"
                             " confidence = excluded.confidence,"
                             " first_seen = COALESCE(first_seen, excluded.first_seen),"
                             " last_seen = max(COALESCE(last_seen, 0), excluded.last_seen),"
                             " occurrences = COALESCE(occurrences, 0) + 1");
    return database_prepare_text(table->database, &sql, &table->upsert_pattern);
}

/* ---- the pattern of an anomaly ---- */

static const struct {
    const char *anomaly_type;
    const char *action;
} actions[] = {
    {"memory_spike",
     "check what it allocates at that point; give it more memory, or smaller units of work"},
    {"runaway_process", "check what it computes, and stop it if its result is not needed"},
    {"zombie", "make its parent wait for its children, or restart the parent"},
    {"fd_exhaustion", "look for descriptors that are never closed, or raise its limit (ulimit -n)"},
    {"memory_pressure", "run fewer jobs at once, or give the machine more memory"},
    {"oom_kill", "give it more memory, or run fewer jobs beside it"},
    {"memory_leak", "look for memory that it never frees; restart it before memory runs out"},
    {"stuck_process", "check the disk or the network mount that it waits for"},
};

static const char *action_for(const char *anomaly_type)
{
    for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
        if (strcmp(actions[i].anomaly_type, anomaly_type) == 0)
            return actions[i].action;
    return NULL;
}

static double confidence_of(int severity)
{
    switch (severity) {
    case SEVERITY_LOW: return 0.5;
    case SEVERITY_MEDIUM: return 0.6;
    case SEVERITY_HIGH: return 0.8;
    case SEVERITY_CRITICAL: return 0.9;
    default: return REAL_UNKNOWN;
    }
}

static int find_job_type(struct anomaly_table *table, const char *run_id,
                         char into[static SUBJECT_MAX_BYTES + 1])
{
    sqlite3_stmt *query = NULL;

    int r = database_prepare(table->database,
                             "SELECT job_type FROM jobs WHERE run_id = ?1 AND job_type IS NOT NULL",
                             &query);
    if (r < 0)
        return r;
    sqlite3_bind_text(query, 1, run_id, -1, SQLITE_STATIC);
    r = database_step(table->database, query);
    if (r > 0) {
        const char *type = (const char *)sqlite3_column_text(query, 0);
        if (type)
            utf8_clean(into, SUBJECT_MAX_BYTES + 1, type, strlen(type));
        else
            r = database_fail_errno(table->database, -ENOMEM);
    }
    sqlite3_finalize(query);
    return r;
}

/* The name of a kernel thread keeps its brackets. */
static bool find_program(const char *command, char into[static SUBJECT_MAX_BYTES + 1])
{
    char program[PROGRAM_MAX_BYTES + 1];

    if (!command_program(command, program))
        return false;
    snprintf(into, SUBJECT_MAX_BYTES + 1, command[0] == '[' ? "[%.120s]" : "%s", program);
    return true;
}

struct subject {
    const char *kind; /* of its tag; NULL: the machine */
    char text[SUBJECT_MAX_BYTES + 1];
};

static int find_subject(struct anomaly_table *table, const struct anomaly *anomaly,
                        const char *command, struct subject *ret)
{
    int r = anomaly->run_id ? find_job_type(table, anomaly->run_id, ret->text) : 0;

    if (r < 0)
        return r;
    if (r > 0)
        ret->kind = "job_type";
    else if (command && find_program(command, ret->text))
        ret->kind = "program";
    else
        strcpy(ret->text, "machine");
    return 0;
}

static const char *name_pattern(const char *anomaly_type, const char *subject, struct arena *arena)
{
    char name[2 * SUBJECT_MAX_BYTES];

    snprintf(name, sizeof(name), "[%.64s] %s", anomaly_type, subject);
    return arena_strdup(arena, name);
}

static const char *make_tag(const char *kind, const char *value, struct arena *arena)
{
    char text[2 * SUBJECT_MAX_BYTES];

    snprintf(text, sizeof(text), "%s:%.*s", kind, SUBJECT_MAX_BYTES, value);
    return arena_strdup(arena, text);
}

#define TAGS_MAX 3

static int make_pattern(const struct anomaly *anomaly, const struct subject *subject,
                        struct arena *arena, struct pattern *ret)
{
    const char *severity =
        field_enum_name(record_find(&anomaly_record, "severity"), anomaly->severity);
    const char **tags = arena_alloc(arena, TAGS_MAX * sizeof(*tags));
    size_t count = 0;

    if (!tags)
        return -ENOMEM;
    tags[count++] = make_tag("anomaly", anomaly->anomaly_type, arena);
    if (severity)
        tags[count++] = make_tag("severity", severity, arena);
    if (subject->kind)
        tags[count++] = make_tag(subject->kind, subject->text, arena);
    *ret = (struct pattern){
        .pattern_type = ANOMALY_PATTERN,
        .pattern_name = name_pattern(anomaly->anomaly_type, subject->text, arena),
        .description = anomaly->description,
        .context_tags = {.items = tags, .count = count},
        .suggested_action = action_for(anomaly->anomaly_type),
        .confidence = confidence_of(anomaly->severity),
        .first_seen = anomaly->timestamp,
        .last_seen = anomaly->timestamp,
        .occurrences = 1,
    };
    for (size_t i = 0; i < count; i++)
        if (!tags[i])
            return -ENOMEM;
    return ret->pattern_name ? 0 : -ENOMEM;
}

static int prepare_patterns(struct anomaly_table *table)
{
    int r = 0;

    if (!table->count_pattern)
        r = database_prepare(table->database,
                             "SELECT EXISTS (SELECT 1 FROM patterns WHERE pattern_type = ?1"
                             " AND pattern_name = ?2)"
                             " OR (SELECT count(*) FROM patterns WHERE pattern_type = ?1) < ?3",
                             &table->count_pattern);
    if (r == 0 && !table->upsert_pattern)
        r = prepare_upsert(table);
    return r;
}

/* Whether the pattern exists, or the limit allows one more. */
static int is_allowed(struct anomaly_table *table, const struct pattern *pattern, int64_t *ret)
{
    sqlite3_stmt *query = table->count_pattern;

    sqlite3_bind_text(query, 1, pattern->pattern_type, -1, SQLITE_STATIC);
    sqlite3_bind_text(query, 2, pattern->pattern_name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(query, 3, ANOMALY_PATTERNS_MAX);
    return MIN(database_step_int(table->database, query, ret), 0);
}

static int store_pattern(struct anomaly_table *table, const struct anomaly *anomaly,
                         const char *command, struct arena *arena)
{
    struct subject subject = {0};
    struct pattern pattern;
    int64_t fits = 0;

    int r = prepare_patterns(table);
    if (r == 0)
        r = find_subject(table, anomaly, command, &subject);
    if (r < 0)
        return r;
    if (make_pattern(anomaly, &subject, arena, &pattern) < 0)
        return database_fail_errno(table->database, -ENOMEM);
    r = is_allowed(table, &pattern, &fits);
    if (r == 0 && !fits) {
        const struct subject rest = {.text = ANOMALY_PATTERNS_REST};
        if (make_pattern(anomaly, &rest, arena, &pattern) < 0)
            return database_fail_errno(table->database, -ENOMEM);
    }
    return r < 0 ? r : upsert_pattern(table, &pattern);
}

/* ---- the patterns of an analysis ---- */

/* Deletes the patterns of the type that are not in the list. */
static int delete_others(struct anomaly_table *table, const char *pattern_type,
                         const struct pattern_list *patterns)
{
    _cleanup_text_ struct text sql = {0};
    sqlite3_stmt *delete = NULL;

    text_append_string(&sql,
                       "DELETE FROM patterns WHERE pattern_type = ? AND pattern_name NOT IN (");
    for (size_t i = 0; i < patterns->count; i++)
        text_append_string(&sql, i ? ", ?" : "?");
    text_append_char(&sql, ')');
    int r = database_prepare_text(table->database, &sql, &delete);
    if (r < 0)
        return r;
    sqlite3_bind_text(delete, 1, pattern_type, -1, SQLITE_STATIC);
    for (size_t i = 0; i < patterns->count; i++)
        sqlite3_bind_text(delete, (int)i + 2, patterns->items[i].pattern_name, -1, SQLITE_STATIC);
    r = database_run(table->database, delete);
    sqlite3_finalize(delete);
    return r;
}

int anomaly_table_renew_patterns(struct anomaly_table *table, const char *pattern_type,
                                 const struct pattern_list *patterns)
{
    int r = prepare_patterns(table);

    for (size_t i = 0; i < patterns->count && r == 0; i++)
        r = upsert_pattern(table, &patterns->items[i]);
    return r < 0 ? r : delete_others(table, pattern_type, patterns);
}

/* ---- anomalies ---- */

static int prepare_anomalies(struct anomaly_table *table)
{
    int r = 0;

    if (!table->update_anomaly)
        r = database_prepare(table->database,
                             "UPDATE anomalies SET cleared_at = ?1, description = ?2,"
                             " metric_value = ?3, threshold = ?4, severity = ?5"
                             " WHERE timestamp = ?6 AND anomaly_type = ?7 AND pid IS ?8"
                             " AND run_id IS ?9",
                             &table->update_anomaly);
    if (r == 0 && !table->insert_anomaly)
        r = schema_prepare_insert(table->database, "INSERT", "anomalies", "session, uid", 2,
                                  &table->schema->anomaly, &table->insert_anomaly);
    return r;
}

bool anomaly_table_is_used(const struct anomaly_table *table)
{
    return table->insert_anomaly;
}

/* Returns 1 if the anomaly was stored already. */
static int update_anomaly(struct anomaly_table *table, const struct anomaly *anomaly)
{
    static const char *const names[] = {"cleared_at",   "description", "metric_value",
                                        "threshold",    "severity",    "timestamp",
                                        "anomaly_type", "pid",         "run_id"};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++)
        r = column_bind(columns_find(&table->schema->anomaly, names[i]), anomaly, NULL,
                        table->update_anomaly, (int)i + 1);
    if (r == -ENOMEM)
        return database_fail_errno(table->database, -ENOMEM);
    if (r == 0)
        r = database_run(table->database, table->update_anomaly);
    return r < 0 ? r : sqlite3_changes(table->database->handle) > 0;
}

static int insert_anomaly(struct anomaly_table *table, const struct anomaly *anomaly)
{
    sqlite3_stmt *insert = table->insert_anomaly;

    sqlite3_bind_int64(insert, 1, table->session);
    column_bind_code(insert, 2, anomaly->uid);
    int r = columns_bind(&table->schema->anomaly, anomaly, NULL, insert, 3);
    if (r == -ENOMEM)
        return database_fail_errno(table->database, -ENOMEM);
    return r < 0 ? r : database_run(table->database, insert);
}

int anomaly_table_write(struct anomaly_table *table, const struct anomaly *anomaly,
                        const char *command, struct arena *arena)
{
    int r = prepare_anomalies(table);
    if (r == 0)
        r = update_anomaly(table, anomaly);
    if (r != 0)
        return MIN(r, 0);
    r = insert_anomaly(table, anomaly);
    /* A repeated report of a stored anomaly does not count again in its pattern. */
    return r == 0 && anomaly->is_opening ? store_pattern(table, anomaly, command, arena) : r;
}
