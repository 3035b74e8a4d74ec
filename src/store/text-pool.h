/* The table `text`, which stores repeated texts, mostly command lines, once.
 *
 * Its index is on a hash, because an index on the texts would store each of them twice. Retention
 * deletes texts that no row refers to. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "store/database.h"

struct text_pool {
    struct database *database;
    sqlite3_stmt *find;
    sqlite3_stmt *insert;
    char *list; /* the last JSON list; NULL: none */
    int64_t list_id;
};

int text_pool_init(struct text_pool *pool, struct database *database);
void text_pool_done(struct text_pool *pool);

/* Finds or inserts a text. The same transaction must store a row that refers to it, or retention
 * may delete it. Returns 0 or a negative errno. */
int text_pool_id(struct text_pool *pool, const char *text, int64_t *ret_id);

/* The same for a list of a snapshot. It usually equals that of the previous snapshot, which is
 * cached. text_pool_forget_list() drops the cache: the previous snapshot had no list, or was not
 * stored. */
int text_pool_list_id(struct text_pool *pool, const char *json, int64_t *ret_id);
void text_pool_forget_list(struct text_pool *pool);
