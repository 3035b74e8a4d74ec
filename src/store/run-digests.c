#include "store/run-digests.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/rows.h"

/* The fields that model/run-digest.h guarantees. */
static const char *const names[] = {
    "job_type",    "started_at",     "ended_at",          "outcome",      "cause",
    "peak_rss_mb", "peak_unique_mb", "total_cpu_seconds", "wall_seconds", "oom_count",
};
static const char *const detail_names[] = {"syscall_hotspots", "syscall_source"};
static const char *const chain_names[] = {"chain"};

static void add_columns(const struct schema *schema, const char *const *wanted, size_t count,
                        struct columns *into)
{
    for (size_t i = 0; i < count; i++)
        into->items[into->count++] = *columns_find(&schema->job, wanted[i]);
}

static void choose_columns(const struct schema *schema, const struct digest_filter *filter,
                           struct columns *into)
{
    add_columns(schema, names, ARRAY_SIZE(names), into);
    if (filter->with_details)
        add_columns(schema, detail_names, ARRAY_SIZE(detail_names), into);
    if (filter->with_chain)
        add_columns(schema, chain_names, ARRAY_SIZE(chain_names), into);
}

/* The types of anomalies follow after the columns. */
static int prepare(struct database *database, const struct columns *columns,
                   const struct digest_filter *filter, sqlite3_stmt **ret)
{
    _cleanup_text_ struct text sql = {0};

    text_append_string(&sql, "SELECT ");
    columns_list(columns, &sql, column_name, "j.");
    text_append_string(&sql,
                       filter->with_details
                           ? ", (SELECT group_concat(DISTINCT a.anomaly_type) FROM anomalies a"
                             " WHERE a.run_id = j.run_id)"
                           : ", NULL");
    text_append_string(&sql, " FROM jobs j WHERE j.ended_at >= ?1");
    if (filter->job_type)
        text_append_string(&sql, " AND j.job_type = ?2");
    if (int_is_known(filter->uid))
        text_append_string(&sql, " AND j.uid = ?3");
    /* By id, the order of the table, so that nothing has to be sorted. */
    text_append_string(&sql, " ORDER BY j.id DESC LIMIT ?4");
    int r = database_prepare_text(database, &sql, ret);
    if (r < 0)
        return r;
    sqlite3_bind_double(*ret, 1, real_is_known(filter->since) ? filter->since : -INFINITY);
    if (filter->job_type)
        sqlite3_bind_text(*ret, 2, filter->job_type, -1, SQLITE_STATIC);
    if (int_is_known(filter->uid))
        sqlite3_bind_int64(*ret, 3, filter->uid);
    sqlite3_bind_int64(*ret, 4, filter->limit ? (int64_t)filter->limit : -1);
    return 0;
}

/* "memory_leak,zombie" */
static int split_types(const char *joined, struct arena *arena, struct text_list *ret)
{
    size_t count = 1;

    for (const char *at = joined; (at = strchr(at, ',')); at++)
        count++;
    const char **types = arena_alloc(arena, count * sizeof(*types));
    if (!types)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(joined, ",");
        types[i] = arena_copy(arena, joined, length);
        if (!types[i])
            return -ENOMEM;
        joined += length + 1;
    }
    *ret = (struct text_list){.items = types, .count = count};
    return 0;
}

static int read_digest(const struct columns *columns, sqlite3_stmt *row, struct arena *arena,
                       struct run_digest *ret)
{
    const char *types = NULL;

    *ret = (struct run_digest){.anomaly_types = {0}};
    record_init(&job_record, &ret->job);
    int r = row_read_columns(columns, row, 0, arena, &ret->job);
    if (r == 0)
        r = row_find_text(row, (int)columns->count, &types);
    return r == 0 && types ? split_types(types, arena, &ret->anomaly_types) : r;
}

static int visit_rows(struct database *database, const struct columns *columns, sqlite3_stmt *rows,
                      digest_fn visit, void *context)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct run_digest digest;
    int r;

    while ((r = database_step(database, rows)) > 0) {
        arena_reset(&arena);
        r = read_digest(columns, rows, &arena, &digest);
        if (r == 0)
            r = visit(context, &digest);
        if (r < 0)
            return database_fail_errno(database, r);
    }
    return r;
}

int run_digests_visit(struct database *database, const struct schema *schema,
                      const struct digest_filter *filter, digest_fn visit, void *context)
{
    struct columns columns = {0};
    sqlite3_stmt *rows = NULL;

    choose_columns(schema, filter, &columns);
    int r = prepare(database, &columns, filter, &rows);
    if (r == 0)
        r = visit_rows(database, &columns, rows, visit, context);
    sqlite3_finalize(rows);
    return r;
}
