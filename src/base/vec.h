/* Growable arrays. A vector is a struct with the members `items` (a typed pointer), `count` and
 * `capacity`; a zero-initialised one is empty. VEC declares one. VEC_PUSH appends and returns 0, or
 * -ENOMEM with the vector unchanged. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define VEC(type)                                                                                  \
    {                                                                                              \
        type *items;                                                                               \
        size_t count;                                                                              \
        size_t capacity;                                                                           \
    }

/* Makes room for `needed` items in total. Grows by half, so that appending is linear. Returns 0 or
 * -ENOMEM. Use VEC_RESERVE instead. */
int vec_reserve_bytes(void **items, size_t *capacity, size_t needed, size_t item_size);

#define VEC_RESERVE(vec, needed)                                                                   \
    ((needed) <= (vec)->capacity ? 0                                                               \
                                 : vec_reserve_bytes((void **)&(vec)->items, &(vec)->capacity,     \
                                                     (needed), sizeof((vec)->items[0])))

#define VEC_PUSH(vec, ...)                                                                         \
    ({                                                                                             \
        int vec_push_ = VEC_RESERVE(vec, (vec)->count + 1);                                        \
        if (vec_push_ == 0)                                                                        \
            (vec)->items[(vec)->count++] = (__VA_ARGS__);                                          \
        vec_push_;                                                                                 \
    })

#define VEC_DONE(vec)                                                                              \
    do {                                                                                           \
        free((vec)->items);                                                                        \
        (vec)->items = NULL;                                                                       \
        (vec)->count = (vec)->capacity = 0;                                                        \
    } while (0)
