#include "store/text-pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

int text_pool_init(struct text_pool *pool, struct database *database)
{
    *pool = (struct text_pool){.database = database};
    int r = database_prepare(database, "SELECT id FROM text WHERE hash = ?1 AND value = ?2",
                             &pool->find);
    if (r == 0)
        r = database_prepare(database, "INSERT INTO text (hash, value) VALUES (?1, ?2)",
                             &pool->insert);
    return r;
}

void text_pool_done(struct text_pool *pool)
{
    text_pool_forget_list(pool);
    sqlite3_finalize(pool->find);
    sqlite3_finalize(pool->insert);
    *pool = (struct text_pool){0};
}

int text_pool_id(struct text_pool *pool, const char *text, int64_t *ret_id)
{
    size_t length = strlen(text);
    int64_t hash =
        (int64_t)(hash_bytes(text, length) >> 16); /* SQLite stores 48 bits in 6 bytes, not 8 */
    int64_t id;

    sqlite3_bind_int64(pool->find, 1, hash);
    sqlite3_bind_text(pool->find, 2, text, (int)length, SQLITE_STATIC);
    int r = database_step_int(pool->database, pool->find, &id);
    if (r < 0)
        return r;
    if (r == 0) {
        sqlite3_bind_int64(pool->insert, 1, hash);
        sqlite3_bind_text(pool->insert, 2, text, (int)length, SQLITE_STATIC);
        r = database_run(pool->database, pool->insert);
        if (r < 0)
            return r;
        id = sqlite3_last_insert_rowid(pool->database->handle);
    }
    *ret_id = id;
    return 0;
}

void text_pool_forget_list(struct text_pool *pool)
{
    free(pool->list);
    pool->list = NULL;
}

int text_pool_list_id(struct text_pool *pool, const char *json, int64_t *ret_id)
{
    if (!pool->list || strcmp(pool->list, json) != 0) {
        int r = text_pool_id(pool, json, &pool->list_id);
        text_pool_forget_list(pool);
        if (r < 0)
            return r;
        pool->list = strdup(json); /* NULL: searched again the next time */
    }
    *ret_id = pool->list_id;
    return 0;
}
