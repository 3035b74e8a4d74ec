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
    char *list; /* the last one; NULL: none */
    int64_t list_id;
};

/* FNV-1a: what is in the database depends on it. */
uint64_t text_hash(const char *bytes, size_t length);

int text_pool_init(struct text_pool *pool, struct database *database);
void text_pool_done(struct text_pool *pool);

/* Must be called in the transaction that also stores a use of the number. 0 or a negative errno. */
int text_pool_id(struct text_pool *pool, const char *text, int64_t *ret_id);

/* The same for a list of a snapshot, which mostly is the one of the snapshot before: that is in
 * use, and need not be looked for. Forgotten when that snapshot had none, or was never stored. */
int text_pool_list_id(struct text_pool *pool, const char *json, int64_t *ret_id);
void text_pool_forget_list(struct text_pool *pool);
