#include "store/query-builder.h"

void query_add_number(struct query_builder *query, const char *condition, double value)
{
    if (!real_is_known(value))
        return;
    text_append_string(&query->sql, condition);
    query->values[query->count++].number = value;
}

void query_add_int(struct query_builder *query, const char *condition, int64_t value)
{
    query_add_number(query, condition, int_is_known(value) ? (double)value : REAL_UNKNOWN);
}

void query_add_text(struct query_builder *query, const char *condition, const char *value)
{
    if (!value)
        return;
    text_append_string(&query->sql, condition);
    query->values[query->count].is_text = true;
    query->values[query->count++].text = value;
}

void query_add_time(struct query_builder *query, const struct columns *columns, const char *name,
                    const char *condition, double value)
{
    query_add_number(query, condition, column_round(columns_find(columns, name), value));
}

void query_add_limit(struct query_builder *query, size_t limit)
{
    if (limit)
        query_add_number(query, " LIMIT ?", (double)limit);
}

int query_run(struct query_builder *query, struct database *database, size_t item_size,
              row_reader read, void *context, struct arena *arena, struct any_list *ret)
{
    sqlite3_stmt *rows = NULL;

    int r = database_prepare_text(database, &query->sql, &rows);
    for (size_t i = 0; i < query->count && r == 0; i++)
        if (query->values[i].is_text)
            sqlite3_bind_text(rows, (int)i + 1, query->values[i].text, -1, SQLITE_STATIC);
        else
            sqlite3_bind_double(rows, (int)i + 1, query->values[i].number);
    if (r == 0)
        r = rows_collect(database, rows, item_size, read, context, arena, ret);
    sqlite3_finalize(rows);
    text_done(&query->sql);
    return r;
}
