/* The names of users. Each is looked up once. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"

/* Zero-initialised is empty and valid. */
struct users {
    struct map by_uid;  /* uid → its name, or a marker if it has none */
    struct arena arena; /* owns the names */
};

/* Returns the name, valid until users_done(); NULL: the uid has no name, or there is no memory. */
const char *users_find(struct users *users, int64_t uid);
void users_done(struct users *users);
