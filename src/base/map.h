/* A hash map from 64-bit keys (mostly pids) to pointers that are not its own.
 *
 * Open addressing with linear probing and backward-shift deletion: no tombstones, so that a daemon
 * that sees a million processes come and go keeps a table as small as what is alive.
 * Zero-initialised is empty and valid. */
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

void *map_get(const struct map *map, uint64_t key);

/* Sets or replaces; `value` must not be NULL. 0 or -ENOMEM, with the map as it was. */
int map_put(struct map *map, uint64_t key, void *value);

/* Removes and returns what was there, or NULL. */
void *map_remove(struct map *map, uint64_t key);

/* Steps through all values in no order: start with *position 0; NULL at the end. The map must not
 * change meanwhile, but for the removal of the value that was just given, after which *position
 * goes back by one: another may have moved into its place. (One at the very end may come twice.) */
void *map_next(const struct map *map, size_t *position);

void map_clear(struct map *map);
void map_done(struct map *map);
