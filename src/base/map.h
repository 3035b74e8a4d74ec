/* A hash map from 64-bit keys (mostly pids) to pointers that the caller owns.
 *
 * Open addressing with linear probing and backward-shift deletion. There are no tombstones, so that
 * the table of a daemon that sees a million processes is only as large as the most that lived at
 * once. A zero-initialised map is empty and valid. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
    uint64_t key;
    void *value; /* NULL: the slot is free */
};

struct map {
    struct map_slot *slots;
    size_t count;
    size_t capacity; /* a power of two, or 0 */
};

/* Returns the value of a key, or NULL if there is none. */
void *map_get(const struct map *map, uint64_t key);

/* Sets or replaces; `value` must not be NULL. Returns 0, or -ENOMEM with the map unchanged. */
int map_put(struct map *map, uint64_t key, void *value);

/* Removes the entry and returns its value, or NULL if there is none. */
void *map_remove(struct map *map, uint64_t key);

/* Iterates over all values in no order: start with *position 0; returns NULL at the end. The map
 * must not change meanwhile, with one exception: the caller may remove the value just returned and
 * then must decrement *position, because another entry may have moved into its slot. (An entry that
 * wraps around the end of the table may then be returned twice.) */
void *map_next(const struct map *map, size_t *position);

/* Removes all entries and keeps the table. */
void map_clear(struct map *map);
/* Frees the map, but not the values. */
void map_done(struct map *map);
/* Frees the map and, with free(), every value. */
void map_done_free(struct map *map);
