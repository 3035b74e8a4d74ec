/* Texts that repeat, stored once: the table `text`. Command lines above all.
 *
 * Found by a hash, because an index on the texts themselves would hold each of them twice. A text
 * that nothing names any more goes with retention. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "store/database.h"

struct text_pool {
    struct database *database;
    sqlite3_stmt *find;
    sqlite3_stmt *insert;
};

/* FNV-1a: what is in the database depends on it. */
uint64_t text_hash(const char *bytes, size_t length);

int text_pool_init(struct text_pool *pool, struct database *database);
void text_pool_done(struct text_pool *pool);

/* Must be called in the transaction that also stores a use of the number. 0 or a negative errno. */
int text_pool_id(struct text_pool *pool, const char *text, int64_t *ret_id);
