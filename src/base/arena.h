/* An arena: many small allocations that are freed together, such as all the text of a snapshot.
 *
 * Single allocations cannot be freed. A zero-initialised arena is empty and valid. A failed
 * allocation returns NULL and leaves the arena unchanged. */
#pragma once

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *newest;
};

/* Returns memory that is aligned for any type. */
void *arena_alloc(struct arena *arena, size_t size);
/* Copy a text; the copies are NUL-terminated. */
char *arena_copy(struct arena *arena, const char *text, size_t length);
char *arena_strdup(struct arena *arena, const char *text);

/* Returns the number of bytes that the arena's blocks occupy. */
size_t arena_bytes(const struct arena *arena);

/* Empties the arena but keeps its newest block, so that a reused arena stops allocating. */
void arena_reset(struct arena *arena);
void arena_done(struct arena *arena);
