/* Replaces the patterns of a type without a session: store_renew_patterns_at(). */
#include "store/anomaly-table.h"
#include "store/database-path.h"
#include "store/store.h"

static int renew(struct database *database, const char *pattern_type,
                 const struct pattern_list *patterns)
{
    struct schema schema;
    struct anomaly_table table;

    schema_init(&schema);
    int r = schema_migrate(&schema, database);
    if (r == 0)
        r = database_begin(database);
    if (r < 0)
        return r;
    anomaly_table_init(&table, database, &schema, 0);
    r = database_end(database, anomaly_table_renew_patterns(&table, pattern_type, patterns));
    anomaly_table_done(&table);
    return r;
}

int store_renew_patterns_at(const char *path, const char *pattern_type,
                            const struct pattern_list *patterns, struct store_error *error)
{
    const struct database_path_options wanted = {.path = path};
    _cleanup_database_path_ struct database_path found = {0};
    struct database_path_error path_error;
    struct database database = {0};

    int r = database_path_prepare(&wanted, &found, &path_error);
    if (r < 0)
        database_fail_with(&database, r, "%s", path_error.text);
    else
        r = database_open(found.path, DATABASE_WRITE, &database);
    if (r == 0)
        r = renew(&database, pattern_type, patterns);
    *error = database.error;
    database_close(&database);
    return r;
}
