/* Names of users, each looked up once. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"

/* Zero-initialised is empty and valid. */
struct users {
    struct map by_uid;
    struct arena arena;
};

/* NULL: it has none, or there is no memory. */
const char *users_find(struct users *users, int64_t uid);
void users_done(struct users *users);
