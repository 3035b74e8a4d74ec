#include "base/vec.h"

#include <stdint.h>

#include "base/macros.h"

int vec_reserve_bytes(void **items, size_t *capacity, size_t needed, size_t item_size)
{
    size_t grown = MAX(needed, *capacity + *capacity / 2);

    if (grown < 8)
        grown = 8;
    if (grown > SIZE_MAX / item_size)
        return -ENOMEM;

    void *bigger = realloc(*items, grown * item_size);
    if (!bigger)
        return -ENOMEM;

    *items = bigger;
    *capacity = grown;
    return 0;
}
