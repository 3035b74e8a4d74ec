/* An arena: many small allocations that live and die together, such as all the text of a snapshot.
 *
 * Nothing in it is freed singly. Zero-initialised is empty and valid. A failed allocation returns
 * NULL and leaves what was there untouched. */
#pragma once

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *newest;
};

void *arena_alloc(struct arena *arena, size_t size);
char *arena_copy(struct arena *arena, const char *text, size_t length);
char *arena_strdup(struct arena *arena, const char *text);

/* What it takes of the memory. */
size_t arena_bytes(const struct arena *arena);

/* Frees all but the newest block, which is kept and emptied, so that a reused arena settles. */
void arena_reset(struct arena *arena);
void arena_done(struct arena *arena);
