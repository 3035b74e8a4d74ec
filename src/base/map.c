#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16

/* Fibonacci hashing spreads keys over the table, but keeps four consecutive keys together: pids are
 * mostly looked up in order, and a cache line holds four slots. */
static size_t home_slot(const struct map *map, uint64_t key)
{
    uint64_t hash = (key >> 2) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(hash >> 32 << 2 | (key & 3)) & (map->capacity - 1);
}

static size_t find_slot(const struct map *map, uint64_t key)
{
    size_t slot = home_slot(map, key);

    while (map->slots[slot].value && map->slots[slot].key != key)
        slot = (slot + 1) & (map->capacity - 1);
    return slot;
}

void *map_get(const struct map *map, uint64_t key)
{
    return map->count ? map->slots[find_slot(map, key)].value : NULL;
}

static int map_grow(struct map *map)
{
    struct map bigger = {.capacity = map->capacity ? map->capacity * 2 : FIRST_CAPACITY,
                         .count = map->count};

    bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
    if (!bigger.slots)
        return -ENOMEM;

    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].value)
            bigger.slots[find_slot(&bigger, map->slots[i].key)] = map->slots[i];

    free(map->slots);
    *map = bigger;
    return 0;
}

int map_put(struct map *map, uint64_t key, void *value)
{
    /* At most two thirds full, or probing grows long. */
    if ((map->count + 1) * 3 > map->capacity * 2) {
        int r = map_grow(map);
        if (r < 0)
            return r;
    }

    struct map_slot *slot = &map->slots[find_slot(map, key)];
    if (!slot->value)
        map->count++;
    *slot = (struct map_slot){.key = key, .value = value};
    return 0;
}

void *map_remove(struct map *map, uint64_t key)
{
    if (!map->count)
        return NULL;

    size_t mask = map->capacity - 1;
    size_t hole = find_slot(map, key);
    void *value = map->slots[hole].value;
    if (!value)
        return NULL;

    /* Pull back every follower whose home lies at or before the hole. */
    for (size_t next = (hole + 1) & mask; map->slots[next].value; next = (next + 1) & mask) {
        size_t home = home_slot(map, map->slots[next].key);
        if (((next - home) & mask) >= ((next - hole) & mask)) {
            map->slots[hole] = map->slots[next];
            hole = next;
        }
    }
    map->slots[hole].value = NULL;
    map->count--;
    return value;
}

void *map_next(const struct map *map, size_t *position)
{
    while (*position < map->capacity) {
        void *value = map->slots[(*position)++].value;
        if (value)
            return value;
    }
    return NULL;
}

void map_clear(struct map *map)
{
    if (map->slots)
        memset(map->slots, 0, map->capacity * sizeof(*map->slots));
    map->count = 0;
}

void map_done(struct map *map)
{
    free(map->slots);
    *map = (struct map){0};
}

void map_done_free(struct map *map)
{
    for (size_t i = 0; i < map->capacity; i++)
        free(map->slots[i].value);
    map_done(map);
}
