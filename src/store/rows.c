#include "store/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"

struct item_vector {
    void *bytes;
    size_t count;
    size_t capacity;
};

static int collect(struct database *database, sqlite3_stmt *statement, size_t item_size,
                   row_reader read, void *context, struct arena *arena, struct item_vector *items)
{
    int r;

    while ((r = database_step(database, statement)) > 0) {
        if (items->count == items->capacity)
            r = vec_reserve_bytes(&items->bytes, &items->capacity, items->count + 1, item_size);
        if (r < 0)
            return r;
        char *item = (char *)items->bytes + items->count * item_size;
        memset(item, 0, item_size);
        r = read(context, statement, arena, item);
        if (r < 0)
            return r;
        items->count++;
    }
    return r;
}

int rows_collect(struct database *database, sqlite3_stmt *statement, size_t item_size,
                 row_reader read, void *context, struct arena *arena, struct any_list *ret)
{
    struct item_vector items = {0};
    void *kept = NULL;

    int r = collect(database, statement, item_size, read, context, arena, &items);
    sqlite3_reset(statement);
    if (r == 0 && items.count) {
        kept = arena_alloc(arena, items.count * item_size);
        if (kept)
            memcpy(kept, items.bytes, items.count * item_size);
        else
            r = -ENOMEM;
    }
    if (r == 0)
        *ret = (struct any_list){.items = kept, .count = items.count};
    else if (r == -ENOMEM || r == -EBADMSG)
        database_fail_errno(database, r);
    free(items.bytes);
    return r;
}

int row_read_columns(const struct columns *columns, sqlite3_stmt *row, int at, struct arena *arena,
                     void *object)
{
    int r = 0;

    for (size_t i = 0; i < columns->count && r == 0; i++)
        r = column_read(&columns->items[i], row, at + (int)i, arena, object);
    return r;
}

int row_find_text(sqlite3_stmt *row, int at, const char **ret)
{
    bool is_null = sqlite3_column_type(row, at) == SQLITE_NULL;

    *ret = is_null ? NULL : (const char *)sqlite3_column_text(row, at);
    return is_null || *ret ? 0 : -ENOMEM;
}

int row_read_text(sqlite3_stmt *row, int at, struct arena *arena, const char **ret)
{
    const char *text;

    int r = row_find_text(row, at, &text);
    *ret = text ? arena_strdup(arena, text) : NULL;
    return r == 0 && text && !*ret ? -ENOMEM : r;
}

int64_t row_read_int(sqlite3_stmt *row, int at)
{
    return sqlite3_column_type(row, at) == SQLITE_NULL ? INT_UNKNOWN
                                                       : sqlite3_column_int64(row, at);
}

double row_read_real(sqlite3_stmt *row, int at)
{
    return sqlite3_column_type(row, at) == SQLITE_NULL ? REAL_UNKNOWN
                                                       : sqlite3_column_double(row, at);
}
